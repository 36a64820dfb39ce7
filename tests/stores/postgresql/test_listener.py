"""What callers hear: all of a process over one connection."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing import get_context

import pytest

from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.postgresql import PostgresStore
from celery_semaphore.stores.postgresql.listener import AGAIN, POLL, PostgresListener
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy

from .conftest import OpenAt, StartServer

FORK = get_context("fork")
LONG = 30.0  # seconds that no wait takes which something ends
LISTENING = (
    "SELECT pid FROM pg_stat_activity WHERE query LIKE '%LISTEN%' AND pid <> pg_backend_pid()"
)


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < LONG


def ticket(nonce: str) -> str:
    return f"255.1700000000000000.{nonce}"


@pytest.fixture
def listener(store: PostgresStore) -> Iterator[PostgresListener]:
    with closing(store.listen(ticket("t"))) as listener:
        yield listener


def notify(server: PostgresServer, nonce: str = "t") -> None:
    """As the server does when it grants."""
    server.run(f"SELECT pg_notify(celery_semaphore.v1_channel('{nonce}'), '')")


def took(listener: PostgresListener, timeout: float) -> float:
    start = time.monotonic()
    listener.wait(timeout)
    return time.monotonic() - start


def test_hears_at_once(server: PostgresServer, listener: PostgresListener) -> None:
    notify(server)
    listener.wait(LONG)
    assert took(listener, 0.05) >= 0.05


def test_hears_nothing_of_others(server: PostgresServer, listener: PostgresListener) -> None:
    notify(server, "other")
    assert took(listener, 0.1) >= 0.1


def test_many_listen_over_one_connection(server: PostgresServer, store: PostgresStore) -> None:
    listeners = [store.listen(ticket(str(n))) for n in range(20)]
    assert len(server.run(LISTENING)) == 1
    for n, listener in enumerate(listeners):
        notify(server, str(n))
        listener.wait(LONG)
        listener.close()
    assert took(store.listen(ticket("0")), 0.05) >= 0.05


def test_two_may_listen_for_one(server: PostgresServer, store: PostgresStore) -> None:
    first, second = store.listen(ticket("t")), store.listen(ticket("t"))
    first.close()
    notify(server)
    second.wait(LONG)
    second.close()


def test_nothing_is_left_when_nobody_listens(server: PostgresServer, open_at: OpenAt) -> None:
    store = open_at(server.url)
    first, second = store.listen(ticket("t")), store.listen(ticket("u"))
    first.close()
    assert len(server.run(LISTENING)) == 1
    second.close()
    wait_until(lambda: not server.run(LISTENING))


def test_hears_again_after_its_connection_was_lost(
    server: PostgresServer, listener: PostgresListener
) -> None:
    for [pid] in server.run(LISTENING):
        server.run(f"SELECT pg_terminate_backend({pid})")
    listener.wait(LONG)  # early, for no reason
    listener.wait(LONG)  # connects, and says that it may have missed something
    notify(server)
    listener.wait(LONG)
    assert took(listener, 0.05) >= 0.05


def test_a_server_that_is_away_keeps_nobody_busy(
    server: PostgresServer, start_proxy: Callable[[int], Proxy], open_at: OpenAt
) -> None:
    proxy = start_proxy(server.port)
    store = open_at(server.database("postgres", port=proxy.port), timeout=0.5)
    with closing(store.listen(ticket("t"))) as listener:
        proxy.cut()
        listener.wait(LONG)
        assert took(listener, 0.2) >= 0.2
        assert took(listener, LONG) >= AGAIN
        proxy.restore()
        listener.wait(LONG)
        notify(server)
        listener.wait(LONG)


def test_a_server_out_of_reach(start_server: StartServer, open_at: OpenAt) -> None:
    server = start_server()
    store = open_at(server.url, timeout=0.5)
    server.stop_immediately()
    with pytest.raises(StoreUnavailable):
        store.listen(ticket("t"))


def test_a_child_closes_its_store_whoever_listened_as_it_was_forked(
    server: PostgresServer, store: PostgresStore
) -> None:
    """What another thread had in that moment nobody gives back in the child."""
    with closing(store.listen(ticket("t"))) as listener:
        with store._ears._use:
            child = FORK.Process(target=store.close)
            child.start()
        child.join(LONG / 2)
        ended = child.exitcode
        child.kill()
        assert ended == 0
        notify(server)
        listener.wait(LONG)
        assert listener._open


def test_a_signal_handler_polls_whose_connection_is_in_use(
    server: PostgresServer, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It interrupted one who listens, and cannot wait for that one."""
    listened, waited = store._ears._listen, []

    def interrupted(listener: PostgresListener) -> None:
        monkeypatch.undo()
        with closing(store.listen(ticket("handler"))) as own:
            waited.append(took(own, LONG))
        listened(listener)

    monkeypatch.setattr(store._ears, "_listen", interrupted)
    with closing(store.listen(ticket("t"))) as listener:
        assert waited[0] < 2 * POLL
        notify(server)
        listener.wait(LONG)
        assert not listener.polls


def test_who_cannot_have_the_connection_in_time_polls(
    server: PostgresServer, open_at: OpenAt
) -> None:
    store = open_at(server.url, timeout=0.1)
    with ThreadPoolExecutor(1) as pool, store._ears._use:
        assert pool.submit(store.listen, ticket("t")).result(LONG).polls
