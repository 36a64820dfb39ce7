"""What an operator and a refused caller are told of the room that waits keep (H12)."""

from __future__ import annotations

import pytest

from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.core.wait_policy import usage
from celery_semaphore.ops import tables
from celery_semaphore.ops.inspector import Inspector
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore
from tests.support.kept_room import keep_room


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(StoreOptions(now=Clock()))


def test_a_refusal_says_how_much_is_kept(store: MemoryStore) -> None:
    keep_room(store, Claim("api", None, 1))
    refusal = store.acquire([Claim("api", None, 1)], "waiting", Wait(Kind.REQUEUE))
    assert isinstance(refusal, Refusal)
    assert usage(refusal) == "0 of 1 in use, 1 kept for waiting tasks"
    assert Inspector(store).resource("api").saturated


def test_a_call_that_is_refused_says_it(store: MemoryStore) -> None:
    keep_room(store, Claim("api", None, 3, 2))
    api = Semaphore("api", 3, store=store, weight=2)
    assert api.available() == 1
    with pytest.raises(
        SemaphoreTimeout, match="0 of 3 in use, 2 kept for waiting tasks, 0 waiting"
    ):
        api.acquire(timeout=0)


def test_a_snapshot_shows_it(store: MemoryStore) -> None:
    keep_room(store, Claim("api", None, 3, 2))
    seen = Inspector(store, declared={"api": 3}).resource("api")
    assert (seen.occupied, seen.kept_room) == (0, 2)
    assert tables.resource(seen).startswith(
        "api: 0 of 3 in use, 2 kept for waiting tasks, 0 waiting"
    )


def test_it_is_summed_up_over_keys(store: MemoryStore) -> None:
    for key in "xy":
        keep_room(store, Claim("export", key, 3, 2), f"disk of {key}")
        assert isinstance(store.acquire([Claim("export", key, 3)], f"t of {key}"), Permit)
    inspector = Inspector(store)
    (export, *_) = [each for each in inspector.semaphores() if each.semaphore == "export"]
    assert (export.occupied, export.kept_room) == (2, 4)
    assert "2, 4 kept for waiting tasks" in tables.semaphores(inspector.semaphores())
    keys = inspector.keys("export")
    whole = inspector.resource("export").with_keys(keys)
    assert (whole.occupied, whole.kept_room) == (2, 4)
    said = tables.whole(inspector.resource("export"), keys, 10)
    assert "export: 2 in use, 4 kept for waiting tasks, 0 waiting" in said
    assert said.count("1, 2 kept for waiting tasks") == 2
