"""A message that the broker handed to a worker, and that the worker had not read when it ceased to consume.

Redis takes a message out of its list when it answers a BRPOP. One that is answered while its worker stops
consuming is in no list, and read by no consumer: the worker must give it back, and at once.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from queue import Empty
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection
from kombu.simple import SimpleQueue

from celery_semaphore.worker.keeping.redis_redelivery import LATE_S, give_back_unread, unanswered
from celery_semaphore.worker.main_process.bootstep import _close_lost
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.variants import also
from tests.support.worker import CeleryWorker

from ..conftest import Site
from ..messages.test_parking import PARK, done

# A BRPOP waits for so long here: whatever is sent meanwhile answers one that is under way.
LONG = {"broker_transport_options": {"polling_interval": 4, "visibility_timeout": 3600}}
SOFT = {"worker_soft_shutdown_timeout": 2.0}
STOPPING = "Stopping SemaphoreConsumerStep"
QUEUES = ["celery", "celery.granted"]


def started(site: Site, **conf: Any) -> CeleryWorker:
    return site.start(concurrency=1, conf=PARK | LONG | conf, options=["--loglevel", "DEBUG"])


def end(worker: CeleryWorker, number: int, until: str) -> None:
    worker.signal(number)
    worker.wait_until(lambda: until in worker.log(), 10, until)


def next_reads(site: Site, worker: CeleryWorker, queue: str) -> None:
    """Send a message; the worker ends, and the next one gets it."""
    result = site.send("free", queue=queue)
    worker.wait(20)
    started(site)
    result.get(timeout=15)


@pytest.mark.parametrize("queue", QUEUES)
def test_of_a_worker_that_shuts_down_warm(site: Site, queue: str) -> None:
    """Another worker gets it while this one still waits for its running task."""
    worker = started(site)
    site.occupy()
    end(worker, signal.SIGTERM, STOPPING)
    result = site.send("free", queue=queue)
    started(site)
    result.get(timeout=15)
    assert worker.running()


@pytest.mark.parametrize("conf", [{}, *also(SOFT)], ids=["cold", "soft"])
@pytest.mark.parametrize("queue", QUEUES)
def test_of_a_worker_that_shuts_down_cold(site: Site, conf: dict[str, Any], queue: str) -> None:
    worker = started(site, **conf)
    site.occupy()
    worker.wait_until_running(site.client, 1)
    end(worker, signal.SIGQUIT, "Cold shutdown")
    next_reads(site, worker, queue)


@pytest.mark.parametrize("queue", ["celery.granted", *also("celery")])
def test_of_an_idle_worker_that_shuts_down(site: Site, queue: str) -> None:
    worker = started(site)
    end(worker, signal.SIGTERM, STOPPING)
    next_reads(site, worker, queue)


@pytest.mark.parametrize("queue", QUEUES)
def test_of_a_queue_that_is_no_longer_consumed(site: Site, queue: str) -> None:
    worker = started(site)
    site.client.control.cancel_consumer("celery", reply=True, timeout=5)
    result = site.send("free", queue=queue)
    site.start(name="heir", concurrency=1, conf=PARK)
    result.get(timeout=15)
    assert worker.running()


@pytest.mark.parametrize("which", [0, 1])
def test_of_a_worker_that_lost_one_of_its_connections(
    site: Site, valkey: ValkeyServer, which: int
) -> None:
    """Its other sockets are whole, and each may keep a message."""
    worker = started(site)
    with valkey.client() as client:
        wait_until(lambda: len(blocked(client)) == len(QUEUES), 10, "it waits for messages")
        worker.pause()
        waiting = blocked(client)
        results = [site.send("free", queue=queue) for queue in QUEUES]
        client.client_kill_filter(_id=waiting[which])
        worker.resume()
    done(results, 20)


@pytest.fixture
def asking(valkey: ValkeyServer) -> Iterator[Connection]:
    """A connection whose question for messages is under way, and that has no consumer any more."""
    with Connection(valkey.url, transport_options={"polling_interval": 1}) as connection:
        queue = SimpleQueue(connection, "unread")
        with pytest.raises(Empty):
            queue.get(timeout=0.1)
        queue.consumer.cancel()
        yield connection


def test_nothing_came(asking: Connection) -> None:
    give_back_unread(asking)
    assert not list(unanswered(asking))


def test_is_returned_to_its_queue(asking: Connection, valkey: ValkeyServer) -> None:
    with Connection(valkey.url) as sender:
        SimpleQueue(sender, "unread").put("a message")
        give_back_unread(asking)
        assert SimpleQueue(sender, "unread").get(timeout=2).payload == "a message"


def test_a_signal_handler_outlasts_the_wait(asking: Connection, valkey: ValkeyServer) -> None:
    """A cold shutdown on top of a warm one waits for the pool inside its handler: `select` finds its time over."""
    with Connection(valkey.url) as sender:

        def handler(*_: object) -> None:
            SimpleQueue(sender, "unread").put("a message")
            time.sleep(1 + LATE_S + 0.1)  # the handler's own work, not a wait for anything

        before = signal.signal(signal.SIGUSR1, handler)
        main = threading.main_thread().ident
        assert main
        interrupt = threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGUSR1))
        interrupt.start()
        try:
            give_back_unread(asking)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert SimpleQueue(sender, "unread").get(timeout=2).payload == "a message"


@pytest.mark.timeout(20)
def test_a_server_that_hangs_holds_up_no_shutdown(asking: Connection, valkey: ValkeyServer) -> None:
    valkey.pause()
    try:
        give_back_unread(asking)
        assert list(unanswered(asking))
    finally:
        valkey.resume()


def blocked(client: Any) -> list[str]:
    """The clients that wait for a message, oldest first."""
    asked = [each for each in client.client_list() if each["cmd"] == "brpop"]
    return sorted((each["id"] for each in asked if "b" in each["flags"]), key=int)


class Unreadable:
    """A connection of which nothing can be read any more."""

    @property
    def transport(self) -> Any:
        msg = "taken apart"
        raise AttributeError(msg)


def test_a_connection_that_cannot_be_read_is_closed_all_the_same() -> None:
    """An error here would end the worker, where Celery would only have connected anew."""
    closed: list[Exception] = []
    lost = OSError("lost")
    worker = SimpleNamespace(kept=None, lost=SimpleNamespace(note=lambda *_: None), connections=0)
    queues = SimpleNamespace(disconnected=lambda: None)
    limiter: Any = SimpleNamespace(worker=worker, queues=queues)
    _close_lost(SimpleNamespace(connection=Unreadable()), limiter, closed.append, lost)
    assert closed == [lost]
