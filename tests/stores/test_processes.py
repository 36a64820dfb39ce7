"""Which processes use a store: what an upgrade asks for before it changes a format."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from multiprocessing import get_context

import pytest

from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.store import Store
from celery_semaphore.stores import processes, store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.processes import SEEN_FOR_S
from tests.support.postgres import PostgresServer
from tests.support.servers import RedisServer

from .test_herd import Hourglass

FORK = get_context("fork")
LEASE = 10.0
OpenStore = Callable[..., Store]


@pytest.fixture
def clock() -> Hourglass:
    return Hourglass()


@pytest.fixture(params=["valkey", "redis", "postgres"])
def any_server(request: pytest.FixtureRequest) -> RedisServer | PostgresServer:
    found: RedisServer | PostgresServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def open_store(any_server: RedisServer | PostgresServer, clock: Hourglass) -> Iterator[OpenStore]:
    """Opens stores on one server, as several processes do."""

    def open_store(lease: float = LEASE) -> Store:
        store = store_from_url(any_server.url, StoreOptions(lease=lease, now=clock, timeout=20.0))
        return stack.enter_context(closing(store))

    with ExitStack() as stack:
        yield open_store


def test_each_process_counts_once(open_store: OpenStore) -> None:
    stores = [open_store() for _ in range(3)]
    for store in [*stores, *stores]:
        store.reap()
    assert stores[0].processes() == {FORMAT: 3}


def test_a_forked_child_is_a_process_of_its_own(open_store: OpenStore) -> None:
    store = open_store()
    store.reap()
    child = FORK.Process(target=store.reap)
    child.start()
    child.join(30)
    assert child.exitcode == 0
    assert store.processes() == {FORMAT: 2}


@pytest.mark.parametrize(("lease", "kept"), [(LEASE, SEEN_FOR_S), (600.0, 600.0)])
def test_a_process_that_ended_is_forgotten(
    open_store: OpenStore, clock: Hourglass, lease: float, kept: float
) -> None:
    ended, lives = open_store(lease), open_store(lease)
    ended.reap()
    clock.now += kept - 1
    lives.reap()
    assert lives.processes() == {FORMAT: 2}
    clock.now += 1
    lives.reap()
    assert lives.processes() == {FORMAT: 1}


def test_nothing_is_left_of_a_process_that_ended(
    any_server: RedisServer | PostgresServer, open_store: OpenStore, clock: Hourglass
) -> None:
    """Whoever counts them passes over it in any case."""
    ended, lives = open_store(), open_store()
    ended.reap()
    clock.now += SEEN_FOR_S
    lives.reap()
    assert records(any_server) == 1


def records(server: RedisServer | PostgresServer) -> int:
    """Return how many processes the server has written down."""
    if isinstance(server, PostgresServer):
        ((count,),) = server.run("SELECT count(*) FROM celery_semaphore.process")
        return int(count)
    with server.client() as client:
        return int(client.zcard("{celery-semaphore}:processes"))


def test_all_have_ended(open_store: OpenStore, clock: Hourglass) -> None:
    """None is left to delete what the last one wrote."""
    store = open_store()
    store.reap()
    clock.now += SEEN_FOR_S
    assert store.processes() == {}


def test_a_process_before_a_step_back_of_the_clock_is_forgotten(
    open_store: OpenStore, clock: Hourglass
) -> None:
    ended, lives = open_store(), open_store()
    ended.reap()
    clock.now -= 3600
    lives.reap()
    assert lives.processes() == {FORMAT: 1}


def test_formats_are_told_apart(open_store: OpenStore, monkeypatch: pytest.MonkeyPatch) -> None:
    new, old = open_store(), [open_store(), open_store()]
    new.reap()
    monkeypatch.setattr(processes, "FORMAT", FORMAT - 1)
    for store in old:
        store.reap()
    assert new.processes() == {FORMAT - 1: 2, FORMAT: 1}
    assert list(new.processes()) == [FORMAT - 1, FORMAT]


def test_the_name_has_the_id_of_the_process() -> None:
    assert processes.ThisProcess().name.endswith(f"-{os.getpid()}")


def test_nothing_is_left_of_a_store_that_is_not_used(server: RedisServer, store: Store) -> None:
    store.reap()
    with server.client() as client:
        assert 0 < client.pttl("{celery-semaphore}:processes") <= 1000 * SEEN_FOR_S
