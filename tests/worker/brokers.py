"""The brokers that a test of a worker runs with."""

import pytest

BOTH = ["site", pytest.param("rabbit_site", marks=pytest.mark.rabbitmq)]
# What these tests show is decided before the broker is reached, or behind it.
EITHER = ["site", pytest.param("rabbit_site", marks=[pytest.mark.rabbitmq, pytest.mark.variants])]
