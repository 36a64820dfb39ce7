"""How many calls of one process a server gets at once."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import ref

import pytest

from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.renewal import renewing
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.connection_limit import ConnectionLimit, ConnectionLimits
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql import link
from celery_semaphore.stores.redis.url import MAX_CONNECTIONS
from tests.support.greenlets import GreenletPool, greenlets
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.servers import RedisServer
from tests.support.variants import also

from .conftest import OpenAt, claim, interrupted, one_after_the_other

CROWD = 150


@pytest.fixture
def crowd() -> Iterator[Callable[[Any], list[Any]]]:
    """Asks a store in as many threads at once; answers what they got, once all have it."""

    def crowd(store: Any) -> list[Any]:
        def ask(n: int) -> Any:
            start.wait()
            return store.acquire(claim(1000), str(n))

        start = threading.Barrier(CROWD)
        return list(pool.map(ask, range(CROWD)))

    with ThreadPoolExecutor(CROWD) as pool:
        yield crowd


def test_who_finds_all_places_taken_waits_for_one() -> None:
    assert one_after_the_other(ConnectionLimit(1, 10.0).place) == ["first", "second"]


def test_but_for_a_bounded_time() -> None:
    places = ConnectionLimit(2, 0.1)
    with places.place(), places.place():
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match="all 2 connections"):
            places.place()
        assert 0.1 <= time.monotonic() - start < 5
    with places.place(), places.place():
        pass


def test_a_failed_call_leaves_its_place() -> None:
    places = ConnectionLimit(1, 0.1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), places.place():
            _ = 1 / 0


def test_a_signal_handler_may_ask_too() -> None:
    """Wherever it interrupts the thread that asks."""
    places, heard = ConnectionLimit(2, 10.0), 0

    def again() -> None:  # one at a time: not while a handler runs
        signal.setitimer(signal.ITIMER_VIRTUAL, random.uniform(0.0001, 0.001))

    def handler(*_: object) -> None:
        nonlocal heard
        with places.place():
            heard += 1
        again()

    before = signal.signal(signal.SIGVTALRM, handler)
    try:
        again()
        until = time.monotonic() + 60
        while heard < 300 and time.monotonic() < until:
            with places.place():
                pass
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert heard >= 300
    with places.place(), places.place():
        pass


def test_a_signal_handler_may_raise() -> None:
    """Wherever it interrupts the thread that asks: no place is lost, and none is made."""
    places = ConnectionLimit(2, 0.1)

    def none_is_lost() -> None:
        assert places.free.qsize() == 2

    interrupted(places.place, none_is_lost)


def test_it_leaves_nothing_behind() -> None:
    places = ConnectionLimit(2, 0.1)
    one = places.place()
    gone = ref(places)
    del places
    assert gone() is None
    with one:
        pass


def test_a_crowd_waits_for_redis(
    server: RedisServer, open_at: OpenAt, crowd: Callable[[Any], list[Any]]
) -> None:
    """More calls at once than connections, while the server is busy for a moment."""
    store = open_at(server.url)
    store.release("warm", claim())
    with server.client() as client:
        before = client.info("clients")["connected_clients"]
        client.execute_command("CLIENT", "PAUSE", "300", "WRITE")
        answers = crowd(store)
        assert client.info("clients")["connected_clients"] <= before - 1 + MAX_CONNECTIONS
    assert all(isinstance(answer, Permit) for answer in answers)


def test_the_url_says_how_many(
    server: RedisServer, open_at: OpenAt, crowd: Callable[[Any], list[Any]]
) -> None:
    store = open_at(f"{server.url}?max_connections=3")
    with server.client() as client:
        before = client.info("clients")["connected_clients"]
        assert all(isinstance(answer, Permit) for answer in crowd(store))
        assert client.info("clients")["connected_clients"] <= before + 3


def test_a_forked_child_has_places_of_its_own(server: RedisServer, open_at: OpenAt) -> None:
    store = open_at(f"{server.url}?max_connections=1", timeout=0.5)

    def exchange(connection: Any) -> int:
        pid = os.fork()
        if not pid:  # pragma: no cover - in the child
            os._exit(0 if isinstance(store.acquire(claim(), "child"), Permit) else 1)
        return os.waitpid(pid, 0)[1]

    assert store._link.ask(exchange) == 0


@pytest.mark.parametrize("fixture", ["embedded_postgres", *also("postgres")])
def test_a_crowd_waits_for_postgresql(
    request: pytest.FixtureRequest, fixture: str, crowd: Callable[[Any], list[Any]]
) -> None:
    server: PostgresServer = request.getfixturevalue(fixture)
    store = store_from_url(server.url, StoreOptions(timeout=10.0))
    sessions = """
        SELECT count(*) FROM pg_stat_activity
        WHERE application_name = 'celery_semaphore' AND datname = 'postgres'
    """

    def so_many() -> int:
        [[count]] = server.run(sessions)
        return int(count)

    before, most, usual = so_many(), 0, link.MAX_SESSIONS - 1  # one is for renewals
    with server.client() as client, ThreadPoolExecutor(1) as pool:
        with client.transaction():
            client.execute("SELECT celery_semaphore.v1_lock(ARRAY['api'])")
            answers = pool.submit(crowd, store)
            wait_until(lambda: so_many() >= before + usual, 10)
            most = so_many()
        assert all(isinstance(answer, Permit) for answer in answers.result(20))
    assert most == before + usual
    wait_until(lambda: so_many() <= before + link.KEPT, 10)
    store.close()


def test_what_renews_all_leases_waits_for_no_other_call(
    server: RedisServer, open_at: OpenAt
) -> None:
    check_renewal(open_at(f"{server.url}?max_connections=3", timeout=0.5), 2)


def test_what_renews_all_leases_waits_for_no_other_call_on_postgresql(
    embedded_postgres: PostgresServer,
) -> None:
    store = store_from_url(embedded_postgres.url, StoreOptions(timeout=0.5))
    check_renewal(store, link.MAX_SESSIONS - 1)
    store.close()


def check_renewal(store: Any, others: int) -> None:
    """So many other calls fill their connections; the last one is for the keeper of leases, and what it does besides.

    Not for what extends a single permit: many threads may do so at once.
    """
    permit = store.acquire(claim(), "1")
    said, now = list[object](), time.monotonic()
    keeper = LeaseKeeper(store, said.append, store.reap, clock=lambda: now)  # type: ignore[arg-type]
    keeper.add(permit)
    let_go, begun = threading.Event(), threading.Barrier(others + 1)

    def exchange(_: Any) -> None:
        begun.wait(10)
        let_go.wait(10)

    with ThreadPoolExecutor(others) as pool:
        calls = [pool.submit(store._link.ask, exchange) for _ in range(others)]
        begun.wait(10)
        try:
            for call in (lambda: store.renew([permit]), lambda: store.acquire(claim(), "2")):
                with pytest.raises(StoreUnavailable, match="connections of this process were in"):
                    call()
            now += store.lease / 2
            keeper.tick()
            assert keeper._kept["1"].confirmed == now
            assert not keeper._warned, "it reaped, too"
        finally:
            let_go.set()
        for each in calls:
            each.result(10)
    assert store.renew([permit]) == {"1": Renewal.OK}
    assert not said


def test_a_single_connection_is_for_renewals_too(server: RedisServer, open_at: OpenAt) -> None:
    store = open_at(f"{server.url}?max_connections=1")
    permit = store.acquire(claim(), "1")
    assert isinstance(permit, Permit)
    with renewing():
        assert store.renew([permit]) == {"1": Renewal.OK}


def test_a_fork_may_have_all_places() -> None:
    """Also that for renewals."""
    places = ConnectionLimits(3, 0.1)
    held = places.places()
    assert len(held) == 3
    with renewing(), pytest.raises(StoreUnavailable):
        places.place()
    held.clear()
    with renewing(), places.place(), places.place(), places.place():
        pass


ASK = """
from celery_semaphore.stores.connection_limit import ConnectionLimit
places = ConnectionLimit(2, 10.0)
def ask():
    with places.place():
        time.sleep(0.2)
"""


@greenlets
def test_greenlets_wait_beside_each_other(pool: GreenletPool) -> None:
    assert 0.8 <= pool.seconds_of_eight(ASK) < 1.6  # two at once
