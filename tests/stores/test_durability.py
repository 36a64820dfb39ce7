"""How safe parked messages are in a server of the Redis family, as it says of itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from celery_semaphore.core.durability import Safety
from celery_semaphore.errors import StoreFull
from celery_semaphore.stores.redis.connection import plain
from celery_semaphore.stores.redis.durability import durability_of
from tests.support.cluster import ClusterServer
from tests.support.servers import RedisServer

from .conftest import PARK, OpenAt, claim, park, refusal_of
from .test_full import Fill, fill, full_server  # noqa: F401 - fixtures
from .test_health import Tells, forbidding, replica  # noqa: F401 - a fixture

StartServer = Callable[..., RedisServer]


def test_an_aof_is_seen_as_it_is_now(server: RedisServer, open_at: OpenAt) -> None:
    store = open_at(server.url)
    assert store.durability(10).safety is Safety.UNTOLD
    with server.client() as client:
        try:
            client.config_set("appendonly", "yes")
            found = store.durability(10)
            assert (found.safety, found.why) == (Safety.LOGGED, "it writes an AOF")
            assert found.place == server.url
        finally:
            client.config_set("appendonly", "no")
    assert store.durability(10).safety is Safety.UNTOLD


def test_an_aof_that_cannot_be_written(start_server: StartServer, open_at: OpenAt) -> None:
    """A disk that is full: with appendfsync everysec the server goes on, and its AOF lacks what came since."""
    store = open_at(start_server(appendonly="yes").url)
    told = store._link.ask(partial(plain, command=("INFO", "everything")))
    info = told.replace(b"aof_last_write_status:ok", b"aof_last_write_status:err")
    assert info != told
    found = store._link.ask(
        lambda connection: durability_of(Tells(connection, info), "names", moves=False)
    )
    assert (found.safety, found.why) == (Safety.UNTOLD, "it fails to write its AOF")


def test_the_server_is_known_by_its_run(server: RedisServer, open_at: OpenAt) -> None:
    named = {
        open_at(url).durability(10).server
        for url in (
            server.url,
            server.database(3),
            server.url.replace("127.0.0.1", "localhost"),
            f"unix://{server.socket}",
        )
    }
    with server.client() as client:
        assert named == {client.info("server")["run_id"]}


def test_another_server_with_the_same_data(start_server: StartServer, open_at: OpenAt) -> None:
    server = start_server(appendonly="yes")
    store = open_at(server.url)
    before = store.durability(10).server
    server.restart(keep_data=True)
    assert store.durability(10).server not in {before, ""}


def test_a_replica_is_no_server(replica: RedisServer, open_at: OpenAt) -> None:  # noqa: F811
    found = open_at(replica.url).durability(10)
    assert found.server == ""


def test_a_server_that_forbids_info(start_server: StartServer, open_at: OpenAt) -> None:
    server = start_server(appendonly="yes")
    found = open_at(forbidding("info", server)).durability(10)
    assert (found.safety, found.server) == (Safety.UNTOLD, "")
    assert "forbids INFO" in found.why
    assert "s3cret" not in found.place


@pytest.mark.parametrize(
    ("policy", "safety"),
    [
        ("allkeys-lru", Safety.NEVER),
        ("volatile-lru", Safety.LOGGED),
        ("noeviction", Safety.LOGGED),
    ],
)
def test_an_evicting_server_keeps_nothing(
    start_server: StartServer, open_at: OpenAt, policy: str, safety: Safety
) -> None:
    server = start_server(appendonly="yes")
    store = open_at(server.url)
    with server.client() as client:
        client.config_set("maxmemory-policy", policy)
    assert store.durability(10).safety is safety


def test_its_memory(server: RedisServer, open_at: OpenAt) -> None:
    store = open_at(server.url)
    assert store.durability(10).memory == 0.0
    with server.client() as client:
        try:
            client.config_set("maxmemory", 2 * int(client.info("memory")["used_memory"]))
            assert 0.3 < store.durability(10).memory < 0.7
        finally:
            client.config_set("maxmemory", 0)


def test_a_full_server_says_so(
    full_server: RedisServer,  # noqa: F811
    open_at: OpenAt,
    fill: Fill,  # noqa: F811
) -> None:
    store = open_at(full_server.url)
    ticket = refusal_of(store.acquire(claim(0), "a", PARK)).ticket
    assert ticket
    fill()
    with pytest.raises(StoreFull):
        store.attach(ticket, claim(0), b"a")


def test_a_cluster_is_no_ones_own_server(cluster: ClusterServer, open_at: OpenAt) -> None:
    found = open_at(cluster.url).durability(10)
    assert found.server == ""
    assert found.place.startswith("redis://127.0.0.1:")


def test_many_parked_messages_are_counted_in_one_step(server: RedisServer, open_at: OpenAt) -> None:
    store = open_at(server.url)
    store.acquire(claim(), "a")
    for n in range(300):
        ticket = park(store, f"h{n}")
        store.attach(ticket, claim(), b"m", name=f"h{n}")
    with server.client() as client:
        client.config_resetstat()
        assert store.durability(10).parked == 300
        calls = client.info("commandstats")
    assert calls["cmdstat_hlen"]["calls"] == 1
