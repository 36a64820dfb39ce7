"""Servers that are stopped under load, and have lost their last moments when they are back."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.counter import Counter, CounterServer
from tests.support.forgetful import all_come_back, forgetful, hammer

pytestmark = pytest.mark.race


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["valkey", "postgres"])
def test_no_living_holder_is_lost_and_none_is_above_the_limit(
    kind: str, counter_server: CounterServer, counter: Counter, tmp_path: Path
) -> None:
    with forgetful(kind) as server:
        told = hammer(server, 3, counter, tmp_path)
        assert told["restored"] > 0  # else nothing was forgotten
        all_come_back(server.url)
