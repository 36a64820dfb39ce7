"""A key for each call, as a tenant or an order has: what was used once is gone after a while."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore.core.permit import Claim, Permit
from tests.support.process import wait_until
from tests.support.servers import RedisServer

from .conftest import OpenAt

KEYS = 100_000
THREADS = 4
LEASE = 0.5
IDLE = 10 * LEASE  # how long the store remembers a key that nobody uses


@pytest.mark.slow
def test_a_hundred_thousand_keys_leave_nothing(
    start_valkey: Callable[..., RedisServer], open_at: OpenAt
) -> None:
    valkey = start_valkey()  # of its own: were it to fail, its keys would be found by other tests
    store = open_at(valkey.url, lease=LEASE)
    wrong: list[Any] = []

    def use(first: int) -> None:
        for n in range(first, KEYS, THREADS):
            claims = [Claim("order", str(n), 1)]
            answer = store.acquire(claims, f"holder-{n}")
            if not isinstance(answer, Permit):
                wrong.append(answer)
            if n % 100:  # the others died: their lease has to end
                store.release(f"holder-{n}", claims)

    threads = [threading.Thread(target=use, args=[n]) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []

    def reaped() -> bool:
        store.reap(1000)
        return not list(store.resources())

    wait_until(reaped, 10, "the index is empty")
    with valkey.client() as client:
        wait_until(lambda: client.dbsize() == 1, IDLE + LEASE, "nothing is left")
        assert client.keys() == [b"{celery-semaphore}:epoch"]
