"""`make test-quick` runs all that is quick, and nothing that is not."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.quick import PLACES, TESTS, is_quick


def item(path: str, *fixtures: str, mark: str | None = None, **params: object) -> pytest.Item:
    found: Any = SimpleNamespace(
        path=TESTS / path,
        fixturenames=[*fixtures, *params],
        callspec=SimpleNamespace(params=params),
        get_closest_marker=lambda name: name == mark,
    )
    return found


@pytest.mark.parametrize(
    "quick",
    [
        item("core/test_key.py"),
        item("worker/keeping/test_session.py", "valkey", "valkey_server", hold=True),
        item("stores/test_conformance.py", "valkey_server"),
    ],
)
def test_quick(quick: pytest.Item) -> None:
    assert is_quick(quick)


@pytest.mark.parametrize(
    "long",
    [
        item("worker/messages/test_route.py", "site"),
        item("worker/messages/test_route.py", "counter_server"),
        item("worker/test_ends.py"),
        item("worker/messages/test_parking.py", broker="rabbit_site"),
        item("stores/test_conformance.py", "embedded_postgres", "embedded_postgres_server"),
        item("core/test_key.py", mark="slow"),
        item("stores/test_tls.py", "valkey_server"),
        item("test_documentation.py"),
    ],
)
def test_long(long: pytest.Item) -> None:
    assert not is_quick(long)


def test_each_place_is_there() -> None:
    assert Path(__file__).parents[1] == TESTS
    assert all(place.exists() for place in PLACES)
