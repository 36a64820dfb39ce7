"""A fleet goes from a release that requeues by default to one that parks where it can, and back, while tasks wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.counter import Counter
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .deployment import Deployment
from .environment import Environment
from .test_two_releases import BEFORE, before

__all__ = ["before"]  # a fixture
pytestmark = [pytest.mark.release, pytest.mark.timeout(600)]
MANY = 500
TAKE_UP_S = 5.0  # a lease
WORKERS = 2
# Without a release before, this one stands in for it.
OLD = {} if BEFORE else {"ON_SATURATED": "requeue"}


@pytest.fixture
def store(valkey: ValkeyServer) -> Iterator[Store]:
    with closing(store_from_url(valkey.url, StoreOptions(lease=TAKE_UP_S))) as store:
        yield store


def kinds(store: Store) -> dict[str, int]:
    """Count the waits by where their messages are; one that is in transit is nowhere yet."""
    found: dict[str, int] = {"park": 0, "requeue": 0}
    for waiter in store.snapshot("two", MANY).waiters:
        if waiter.reachable:
            found[waiter.kind.value] += 1
    return found


@pytest.mark.parametrize("ends", ["here", "before"])
def test_five_hundred_wait_meanwhile(
    deployment: Deployment,
    before: Environment,
    installed: Environment,
    store: Store,
    counter: Counter,
    *,
    ends: str,
) -> None:
    """Those that the older release kept are parked by this one; it sends back what this one parked."""
    deployment.start(before, WORKERS, **OLD)
    store.set_limit(0, "two")
    results = [deployment.client.send_task("waits").id for _ in range(MANY)]
    wait_until(lambda: kinds(store) == {"park": 0, "requeue": MANY}, 60, "all are kept")
    deployment.change_all_to(installed)
    wait_until(lambda: kinds(store) == {"park": MANY, "requeue": 0}, 60, "all are parked")
    if ends == "before":
        deployment.change_all_to(before, **OLD)
    store.set_limit(None, "two")
    began = time.monotonic()
    wait_until(
        lambda: counter.stats("two")["completed"] == MANY,
        2 * TAKE_UP_S + MANY * 0.02 / 3,
        "all have run",
    )
    print(f"{MANY} tasks ran within {time.monotonic() - began:.1f} s")
    stats = counter.stats("two")
    assert stats["max_inside"] <= 3
    assert {task: seen["entries"] for task, seen in stats["tasks"].items()} == dict.fromkeys(
        results, 1
    )
