"""What counting for metrics costs a server of the Redis family, and which rights it needs."""

from collections.abc import Iterator
from typing import Any

import pytest

from celery_semaphore.core.store import TOTALLED
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.testing.clock import Clock
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim, park, permit_of, refusal_of

SESSION = "worker-1"
FEW, MANY = 5, 1000  # waits of each kind
COMMANDS = 40  # for a key with waits and a grant


def counts(server: RedisServer, store: RedisStore, names: list[str]) -> dict[str, int]:
    """Return how often the server ran each command for the totals of these resources."""
    store.totals(names)
    with server.client() as client:
        client.config_resetstat()
        store.totals(names)
        stats: Any = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): found["calls"] for name, found in stats.items()}


def changes(server: RedisServer) -> int:
    with server.client() as client:
        found: Any = client.info("persistence")
    return int(found["rdb_changes_since_last_save"])


def wait_in_each_way(store: RedisStore, first: int, last: int) -> None:
    """Let as many waits be parked, kept and in transit."""
    for n in range(first, last):
        park(store, f"p{n}")
        store.acquire(claim(), f"h{n}", Wait(Kind.REQUEUE, session=SESSION))
        store.acquire(claim(), f"t{n}", Wait(Kind.REQUEUE, priority=3))


@pytest.fixture
def reader(server: RedisServer) -> Iterator[str]:
    """The URL of a user that may read, and nothing else."""
    rights = ("on", ">secret", "~*", "+@read", "+eval", "+evalsha", "+time")
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "reader", *rights)
        yield server.url.replace("redis://", "redis://reader:secret@")
        client.execute_command("ACL", "DELUSER", "reader")


def test_a_key_without_waits_takes_three_commands(server: RedisServer, store: RedisStore) -> None:
    names = [f"of{n}" for n in range(TOTALLED)]
    for name in names:
        permit_of(store.acquire(claim(3, of=name), "a"))
    seen = counts(server, store, names)
    assert seen["evalsha"] == 1
    assert seen["zrangebyscore"] == seen["exists"] == TOTALLED
    assert TOTALLED <= seen["hmget"] <= TOTALLED + 2  # of the store
    assert sum(seen.values()) <= 3 * TOTALLED + 10


def test_a_long_line_takes_no_more_commands_than_a_short_one(
    server: RedisServer, open_at: OpenAt
) -> None:
    store = open_at(server.url, now=Clock())
    store.ask(SESSION)
    permit_of(store.acquire(claim(), "a"))
    wait_in_each_way(store, 0, FEW)
    store.release("a", claim())
    few = counts(server, store, ["api"])
    assert sum(few.values()) <= COMMANDS
    wait_in_each_way(store, FEW, MANY)
    assert counts(server, store, ["api"]) == few
    (totals,) = store.totals(["api"])
    assert (totals.granted, totals.waiting) == (1, 3 * MANY - 1)


def test_counting_writes_nothing(server: RedisServer, store: RedisStore) -> None:
    store.ask(SESSION)
    permit_of(store.acquire(claim(), "a"))
    wait_in_each_way(store, 0, FEW)
    store.release("a", claim())
    before = changes(server)
    store.totals(["api", "unused"])
    assert changes(server) == before
    store.ask(SESSION)
    assert changes(server) > before


def test_who_may_only_read_can_count(server: RedisServer, open_at: OpenAt, reader: str) -> None:
    clock = Clock()
    store = open_at(server.url, now=clock)
    permit_of(store.acquire(claim(2), "a"))
    permit_of(store.acquire(claim(2), "b"))
    park(store, "c")
    store.set_limit(1, "api")
    assert open_at(reader, now=clock).totals(["api", "disk"]) == store.totals(["api", "disk"])
    refusal_of(store.acquire(claim(2), "d"))


def test_counting_needs_no_free_memory(server: RedisServer, store: RedisStore) -> None:
    permit_of(store.acquire(claim(), "a"))
    park(store, "b")
    with server.client() as client:
        client.config_set("maxmemory", 1)
        try:
            (totals,) = store.totals(["api"])
        finally:
            client.config_set("maxmemory", 0)
    assert (totals.held, totals.parked) == (1, 1)
