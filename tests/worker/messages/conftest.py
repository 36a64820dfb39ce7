from collections.abc import Iterator
from typing import Any

import pytest
from celery.worker import state


@pytest.fixture
def revoked() -> Iterator[Any]:
    yield state.revoked
    state.revoked.clear()
