"""A key for each call, as a tenant or an order has: what was used once is gone after a while."""

import threading
from collections.abc import Callable
from math import inf
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from tests.support.process import wait_until
from tests.support.servers import RedisServer
from tests.support.variants import also

from .conftest import OpenAt

ALONE = 0.1  # of the keys; the others are used twenty by one holder, which takes this test a fraction of the time
TOGETHER = 20
THREADS = 4
LEASE = 0.5
IDLE = 10 * LEASE  # how long the store remembers a key that nobody uses
STAY = {b"{celery-semaphore}:epoch", b"{celery-semaphore}:processes"}


@pytest.mark.slow
@pytest.mark.parametrize("keys", [20_000, *also(100_000)])
def test_many_keys_leave_nothing(
    start_valkey: Callable[..., RedisServer], open_at: OpenAt, keys: int
) -> None:
    valkey = start_valkey()  # of its own: were it to fail, its keys would be found by other tests
    store = open_at(valkey.url, lease=LEASE)
    wrong: list[Any] = []

    alone = int(keys * ALONE)
    held = [range(n, n + 1) for n in range(alone)]
    held += [range(n, n + TOGETHER) for n in range(alone, keys, TOGETHER)]

    def use(first: int) -> None:
        for n in range(first, len(held), THREADS):
            claims = [Claim("order", str(key), 1) for key in held[n]]
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
        assert max(left(client)) <= IDLE + LEASE
        # The server removes what has expired in its own time, in a part of a busy processor's.
        wait_until(lambda: client.dbsize() == 2, 30, "nothing else is left")
        assert set(client.keys()) == STAY
        assert client.pttl("{celery-semaphore}:processes") > 0, "it goes with the last process"


def left(client: Any) -> list[float]:
    """Return the seconds until each key expires, but for those that stay; one without an end is infinite."""
    names = set(client.keys()) - STAY
    pipeline = client.pipeline(transaction=False)
    for name in names:
        pipeline.pttl(name)
    ends = pipeline.execute()
    return [inf if end == -1 else end / 1000 for end in ends if end != -2]  # -2: it is gone


def test_the_limit_of_one_key_concerns_one(valkey: RedisServer, open_at: OpenAt) -> None:
    """However many there are: else an operator would hold up the server."""
    store = open_at(valkey.url)
    for n in range(3):
        store.acquire([Claim("order", str(n), 1)], "holder")
    with valkey.client() as client:
        client.config_resetstat()
        store.set_limit(2, "order/1")
        found: Any = client.info("commandstats")
    assert "cmdstat_zscan" not in found
    assert (
        found["cmdstat_evalsha"]["calls"] <= 2 + 1
    )  # the limit, the look, and one that is told it


def test_the_limit_of_a_semaphore_concerns_its_own_keys(
    valkey: RedisServer, open_at: OpenAt
) -> None:
    """The names of the others stay in the server."""
    store = open_at(valkey.url)
    for of, key in (("order", "1"), ("order", "2"), ("order", None), ("orders", "1"), ("a", "1")):
        store.acquire([Claim(of, key, 1)], "holder")
    assert sorted(store._index.names("order*")) == ["order", "order/1", "order/2", "orders/1"]
    with valkey.client() as client:
        store.set_limit(3, "order")
        client.config_resetstat()
        store.set_limit(2, "order")
        found: Any = client.info("commandstats")
    assert found["cmdstat_evalsha"]["calls"] == 1 + 3
