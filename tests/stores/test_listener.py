"""What a caller hears over a connection of a server of the Redis family."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from threading import Thread

import pytest

from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.listener import AGAIN, RedisListener
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim

LONG = 30.0  # seconds that no wait takes which something ends
CHANNEL = "{celery-semaphore}:granted:t"

pytestmark = pytest.mark.usefixtures("in_time")


@pytest.fixture
def in_time() -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < LONG / 2


@pytest.fixture
def listener(store: RedisStore) -> Iterator[RedisListener]:
    with closing(store.listen("t")) as listener:
        yield listener


def publish(server: RedisServer, channel: str = CHANNEL) -> int:
    """As the server does when it grants; answers how many listened."""
    with server.client() as client:
        heard: int = client.publish(channel, "")
        return heard


def took(listener: RedisListener, timeout: float) -> float:
    start = time.monotonic()
    listener.wait(timeout)
    return time.monotonic() - start


def test_hears_at_once(server: RedisServer, listener: RedisListener) -> None:
    assert publish(server) == 1
    listener.wait(LONG)
    assert took(listener, 0.05) >= 0.05


def test_hears_while_it_waits(server: RedisServer, listener: RedisListener) -> None:
    thread = Thread(target=listener.wait, args=[LONG])
    thread.start()
    publish(server)
    thread.join(LONG / 2)
    assert not thread.is_alive()


def test_hears_nothing_of_others(server: RedisServer, listener: RedisListener) -> None:
    assert publish(server, "{celery-semaphore}:granted:other") == 0
    assert took(listener, 0.05) >= 0.05


def test_a_prefix_keeps_stores_apart(server: RedisServer, open_at: OpenAt) -> None:
    with closing(open_at(server.url, prefix="mine").listen("t")):
        assert publish(server) == 0
        assert publish(server, "{mine}:granted:t") == 1


def test_any_ticket_has_a_channel(server: RedisServer, store: RedisStore) -> None:
    ticket = "100.2000000000000000.task ä{}\r\n:\ud800"
    with closing(store.listen(ticket)) as listener:
        assert publish(
            server, f"{{celery-semaphore}}:granted:{ticket}".encode("utf-8", "surrogatepass")
        )
        listener.wait(LONG)


def test_closing_leaves_nothing_on_the_server(server: RedisServer, store: RedisStore) -> None:
    with server.client() as client:
        before = len(client.client_list(_type="pubsub"))
        listener = store.listen("t")
        assert len(client.client_list(_type="pubsub")) == before + 1
        listener.close()
        wait_until(lambda: len(client.client_list(_type="pubsub")) == before)
    listener.close()


def test_listeners_take_no_connection_from_calls(server: RedisServer, open_at: OpenAt) -> None:
    store = open_at(f"{server.url}?max_connections=2")
    listeners = [store.listen(str(n)) for n in range(10)]
    store.acquire(claim(), "a")
    for listener in listeners:
        listener.close()


def test_hears_again_after_its_connection_was_lost(
    server: RedisServer, listener: RedisListener
) -> None:
    with server.client() as client:
        client.client_kill_filter(_type="pubsub", skipme=False)
    listener.wait(LONG)  # early, for no reason
    listener.wait(LONG)  # connects, and says that it may have missed something
    assert publish(server) == 1
    listener.wait(LONG)
    assert took(listener, 0.05) >= 0.05


def test_a_server_that_is_away_keeps_nobody_busy(
    server: RedisServer, start_proxy: Callable[[int], Proxy], open_at: OpenAt
) -> None:
    proxy = start_proxy(server.port)
    with closing(open_at(f"redis://127.0.0.1:{proxy.port}/0", timeout=0.5).listen("t")) as listener:
        proxy.cut()
        listener.wait(LONG)
        assert took(listener, 0.2) >= 0.2
        assert AGAIN <= took(listener, LONG) < AGAIN + 1
        proxy.restore()
        listener.wait(LONG)
        assert publish(server) == 1
        listener.wait(LONG)


def test_a_server_out_of_reach(start_server: Callable[..., RedisServer], open_at: OpenAt) -> None:
    server = start_server()
    store = open_at(server.url, timeout=0.5)
    server.kill()
    with pytest.raises(StoreUnavailable):
        store.listen("t")


def test_a_server_that_hangs(
    server: RedisServer, start_proxy: Callable[[int], Proxy], open_at: OpenAt
) -> None:
    proxy = start_proxy(server.port)
    store = open_at(f"redis://127.0.0.1:{proxy.port}/0", timeout=0.3)
    proxy.hang()
    with pytest.raises(StoreUnavailable):
        store.listen("t")
