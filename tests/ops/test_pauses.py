"""How a pause is shown: it hides neither a limit nor another pause."""

from __future__ import annotations

import re

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import SemaphoreError
from celery_semaphore.ops import answers, tables
from celery_semaphore.ops.inspector import Inspector
from celery_semaphore.ops.length import length, seconds_of
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore(StoreOptions(now=Clock()))
    store.declare({"api": 5, all_keys_of("export"): 2}, "celery@web")
    return store


@pytest.fixture
def inspector(store: MemoryStore) -> Inspector:
    return Inspector(store, declared={"api": 5, "export": 2}, keyed=["export"])


def row(inspector: Inspector, name: str) -> str:
    lines = tables.semaphores(inspector.semaphores()).splitlines()
    cells = [re.split(" {2,}", line) for line in lines]
    return next(limit for each, limit, *_ in filter(lambda cell: cell[1:], cells) if each == name)


def whole(inspector: Inspector, name: str) -> list[str]:
    return tables.whole(inspector.resource(name), inspector.keys(name), 10).split("\n\n")


def test_the_pause_of_a_semaphore_hides_no_pause_of_a_key(
    store: MemoryStore, inspector: Inspector
) -> None:
    store.pause("export/7")
    assert row(inspector, "export") == "2, 1 key paused"
    store.pause("export/8")
    store.pause("export")
    assert row(inspector, "export") == "2, paused, 2 keys paused"


def test_a_semaphore_with_keys_is_paused_in_its_first_line(
    store: MemoryStore, inspector: Inspector
) -> None:
    store.pause("export", 600.0)
    head, why = whole(inspector, "export")
    assert head == (
        "export: 0 in use, 0 waiting, all keys together; limit of each key 2; paused for another 10 min"
    )
    assert why.startswith("The limit in force after the pause is the smallest declared last")
    store.set_limit(3, "export")
    why = whole(inspector, "export")[1]
    assert why.startswith(
        "The limit in force after the pause was set by an operator; the smallest "
    )


def test_a_semaphore_without_keys_has_one_first_line(
    store: MemoryStore, inspector: Inspector
) -> None:
    """Also where an operator paused a key that no task uses."""
    assert isinstance(store.acquire([Claim("api", None, 5)], "t:1"), Permit)
    store.pause("api/typo")
    assert [part for part in whole(inspector, "api") if part.startswith("api")] == [
        "api: 1 of 5 in use, 0 waiting"
    ]
    assert inspector.has_no_keys("api/typo")
    assert not inspector.has_no_keys("export/7")
    assert not inspector.has_no_keys("other/7"), "which tasks use it is not known"


def test_a_semaphore_in_use_with_and_without_keys_has_two(
    store: MemoryStore, inspector: Inspector
) -> None:
    for key in (None, "7"):
        assert isinstance(store.acquire([Claim("api", key, 5)], f"{key}:1"), Permit)
    heads = [part for part in whole(inspector, "api") if part.startswith("api")]
    assert heads == [
        "api: 2 in use, 0 waiting, all keys together",
        "api: 1 of 5 in use, 0 waiting",
    ]


def test_a_pause_is_told_beside_its_limit(store: MemoryStore, inspector: Inspector) -> None:
    store.pause("api")
    assert answers.in_force(inspector.in_force("api"), {}) == (
        "api: the limit is 5, and it is paused until it is resumed: no new task starts."
    )


@pytest.mark.parametrize("text", ["0s", "0.0d", "367d", "99999999d"])
def test_a_length_has_bounds(text: str) -> None:
    with pytest.raises(SemaphoreError, match=r"more than 0s and at most 366d.*until it is resumed"):
        length(text)
    assert length("366d") == 366 * 86400


@pytest.mark.parametrize(
    ("text", "seconds"), [("60", 60.0), ("60s", 60.0), ("2m", 120.0), ("1.5", 1.5), ("1w", None)]
)
def test_a_lease_needs_no_unit(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds
