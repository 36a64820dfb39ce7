"""A process that is killed while many of its calls wait: those of other processes go on without it."""

from __future__ import annotations

import threading
import time
from multiprocessing import get_context
from typing import Any

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import thread
from tests.support.process import wait_until
from tests.support.variants import also

CLAIMS = (Claim("api", None, 1),)
CALLS = 20
# A call that waits asks again by itself only after a third of it.
LEASE_S = 120.0
DELAYED_S = 20.0  # longer than a grant and a sweep, on a busy machine too


def store_at(url: str) -> Store:
    return store_from_url(url, StoreOptions(lease=LEASE_S))


def wait_in_threads(url: str) -> None:
    api = Semaphore("api", 1, store=store_at(url))
    threads = [threading.Thread(target=api.acquire) for _ in range(CALLS)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()


@pytest.mark.parametrize("server", ["valkey", "postgres", *also("redis")])
def test_one_grant_idles_and_no_more(server: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(server).url
    store, ended, holders = store_at(url), dict[str, float](), set[str]()
    store.acquire(CLAIMS, "a")
    killed: Any = get_context("fork").Process(target=wait_in_threads, args=(url,))
    killed.start()
    wait_until(lambda: store.snapshot("api").waiting == CALLS, 30)
    api = Semaphore("api", 1, store=store, timeout=2 * DELAYED_S)

    def acquire_behind_them() -> None:
        with api as permit:
            ended[permit.holder] = time.monotonic()

    with thread(acquire_behind_them) as behind:
        wait_until(lambda: store.snapshot("api").waiting == CALLS + 1, 30)
        killed.kill()
        killed.join()
        released = time.monotonic()
        store.release("a", CLAIMS)
        while behind.is_alive() and time.monotonic() - released < DELAYED_S:
            holders |= {each.holder for each in store.snapshot("api").holders}
            behind.join(0.05)
        assert ended, "it waits behind the calls of a process that is gone"
    assert min(ended.values()) - released > 1.0, "a grant of the dead was not waited for"
    assert len(holders - {"a"} - ended.keys()) == 1, "one of the dead"
