"""Many workers look for what is due at the same moment: each resource is looked at by one of them."""

import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from typing import Any

import psycopg
import pytest
import redis

from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql import PostgresStore
from celery_semaphore.stores.redis import scripts
from celery_semaphore.stores.redis.connection import pack
from tests.conftest import need
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim

FORK = get_context("fork")
WORKERS = 8
SHORT = 0.5
LEASE = 3.0  # long enough for no silence, in which no permit ends, until all workers have begun


def reap(url: str, all_here: Any, due: Callable[[str], int]) -> None:
    """Look as a worker does, while anything is due that no other has claimed."""
    store = store_from_url(url, StoreOptions(lease=LEASE, timeout=20.0))
    store.reap(0)
    all_here.wait()
    while due(url):
        store.reap()


def herd(url: str, due: Callable[[str], int]) -> None:
    all_here = FORK.Barrier(WORKERS)
    workers = [FORK.Process(target=reap, args=(url, all_here, due)) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0] * WORKERS


def killed(url: str, many: int, due: Callable[[str], int]) -> None:
    """Leave so many resources behind whose holders died, until they are due."""
    store = store_from_url(url, StoreOptions(lease=LEASE, timeout=20.0))
    for n in range(many):
        store.acquire(claim(of=f"of-{n}"), "killed")

    def all_due() -> bool:
        store.snapshot("of a bystander")  # or it would be a silence
        return due(url) == many

    wait_until(all_due, 10 * LEASE)
    store.close()


def warm_up(url: str) -> None:
    """Tell the server the scripts, which workers would all do that come first."""
    store = store_from_url(url, StoreOptions(lease=LEASE))
    store.set_limit(None, "warm/up")
    store.close()


def due_in_redis(url: str) -> int:
    with redis.Redis.from_url(url) as client:
        found: Any = client.zcount("{celery-semaphore}:index", "-inf", time.time() * 1_000_000)
    return int(found)


def test_of_redis(server: RedisServer) -> None:
    many = 3000
    warm_up(server.url)
    killed(server.url, many, due_in_redis)
    with server.client() as client:
        client.config_resetstat()
        herd(server.url, due_in_redis)
        stats: Any = client.info("commandstats")
        assert stats["cmdstat_evalsha"]["calls"] <= 1.2 * many
        assert not client.exists("{celery-semaphore}:index")


@pytest.fixture
def postgres_that_counts() -> Iterator[PostgresServer]:
    need(PostgresServer)
    with PostgresServer(track_functions="pl") as server:
        server.install()
        yield server


def due_in_postgres(url: str) -> int:
    due = (
        "SELECT FROM celery_semaphore.resource WHERE reap_at <= date_part('epoch', now()) * 1000000"
    )
    with psycopg.connect(url) as client:
        return client.execute(due).rowcount


def test_of_postgresql(postgres_that_counts: PostgresServer) -> None:
    many, server = 600, postgres_that_counts
    killed(server.url, many, due_in_postgres)
    herd(server.url, due_in_postgres)
    looks = "SELECT calls FROM pg_stat_user_functions WHERE funcname = 'v1_set_next_reap'"
    wait_until(lambda: server.run(looks), 10, "the figures of the workers that ended")
    ((calls,),) = server.run(looks)
    assert calls <= 1.2 * many
    assert server.run("SELECT count(*) FROM celery_semaphore.permit WHERE holder IS NOT NULL") == [
        (0,)
    ]


class Hourglass:
    """A clock that the test turns."""

    def __init__(self) -> None:
        self.now = 2_000_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Hourglass:
    return Hourglass()


def test_a_worker_dies_before_it_looks(
    server: RedisServer, open_at: OpenAt, clock: Hourglass
) -> None:
    """The others leave what it claimed alone for a second, no longer."""
    store = open_at(server.url, lease=SHORT, now=clock)
    store.acquire(claim(), "killed")
    clock.now += SHORT
    claimed = store._runner.run(scripts.OVERDUE, [], [100, "1 killed"], (1, pack(["processes"])))
    assert claimed[1] == [b"api"]
    is_left_alone_for_a_second(store, clock)


def test_a_worker_dies_before_it_looks_in_postgresql(
    postgres: PostgresServer, clock: Hourglass
) -> None:
    store = PostgresStore({"conninfo": postgres.url}, StoreOptions(lease=SHORT, now=clock))
    store.acquire(claim(), "killed")
    clock.now += SHORT
    assert store._runner.run("overdue", 100, "1 killed") == [["{api}"]]
    is_left_alone_for_a_second(store, clock)
    store.close()


def is_left_alone_for_a_second(store: Store, clock: Hourglass) -> None:
    clock.now += 0.9
    store.reap()
    assert list(store.resources()) == ["api"]
    clock.now += 0.1
    store.reap()
    assert list(store.resources()) == []
