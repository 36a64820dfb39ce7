"""Which tests `make test-quick` runs: those that start no worker, and no server but Valkey."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PLACES = (
    *(TESTS / name for name in ("core", "semaphore", "task")),
    *(TESTS / "worker" / name for name in ("keeping", "messages", "permits")),
    TESTS / "worker" / "test_celery_internals.py",
    TESTS / "stores" / "test_conformance.py",
)
OTHERS = {"cluster", "embedded_postgres", "oldest_redis", "postgres", "rabbitmq", "redis"}
# What a test asks for, or the name of it that comes as a parameter.
LONG = {f"{name}_server" for name in OTHERS} | OTHERS
LONG |= {"counter_server", "site", "rabbit_site", "start_redis", "start_valkey", "start_worker"}
MARKS = ("slow", "soak", "release", "variants", "rabbitmq", "race")


@cache
def may_hold_quick(path: Path) -> bool:
    """Tell whether a file or folder may have such tests: to collect the others takes longer than these need."""
    return any(path.is_relative_to(place) or place.is_relative_to(path) for place in PLACES)


def is_quick(item: pytest.Item) -> bool:
    """Tell it by the folder, the marks and the fixtures of a test."""
    asked = {*getattr(item, "fixturenames", ())}
    if hasattr(item, "callspec"):
        asked |= {each for each in item.callspec.params.values() if isinstance(each, str)}
    return (
        may_hold_quick(item.path)
        and not asked & LONG
        and not any(item.get_closest_marker(mark) for mark in MARKS)
    )
