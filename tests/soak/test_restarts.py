"""The store's server is restarted fifty times under load, each time without its last moments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.counter import Counter, CounterServer
from tests.support.forgetful import all_come_back, forgetful, hammer

RESTARTS = 50


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["valkey", "postgres"])
def test_fifty_restarts(
    kind: str, counter_server: CounterServer, counter: Counter, tmp_path: Path
) -> None:
    with forgetful(kind) as server:
        told = hammer(server, RESTARTS, counter, tmp_path)
        print(dict(told))
        assert told["restored"] > RESTARTS
        all_come_back(server.url)
