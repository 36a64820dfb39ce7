"""Servers that hang for longer than a lease, with all their clients alive: A17, seen by a process that counts."""

from __future__ import annotations

import signal
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

import psutil
import pytest

from celery_semaphore import Semaphore
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conftest import need
from tests.support.held_permits import forgotten_after
from tests.support.postgres import EmbeddedPostgresServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.counter import Counter, CounterServer
    from tests.support.server import Server

pytestmark = [pytest.mark.race, pytest.mark.slow]

LEASE = 4.0
LIMIT = 2
WAITED_S = 120  # for a permit, on a busy machine


@contextmanager
def started(kind: str) -> Iterator[ValkeyServer | EmbeddedPostgresServer]:
    server = ValkeyServer() if kind == "valkey" else EmbeddedPostgresServer()
    need(type(server))
    with server:
        if isinstance(server, EmbeddedPostgresServer):
            server.install()
        yield server


@contextmanager
def hanging(server: Server) -> Iterator[None]:
    """Stop the server with all its processes; what they are sent meanwhile lies in their buffers."""
    main = psutil.Process(server.pid)
    stopped = [main, *main.children(recursive=True)]
    for each in stopped:
        each.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for each in stopped:
            each.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("kind", ["valkey", "postgres"])
def test_none_is_admitted_beside_those_that_run(
    kind: str, counter_server: CounterServer, counter: Counter
) -> None:
    def hold() -> None:
        """Hold a permit as a process of its own would: in a store and with a keeper of its own."""
        own = counter_server.client()
        store = store_from_url(server.url, StoreOptions(lease=LEASE, timeout=1.0))
        with (
            closing(own),
            closing(store),
            Semaphore("api", LIMIT, store=store, timeout=WAITED_S),
            own.inside("api", "task"),
        ):
            own.remain("api", None)

    with started(kind) as server, ThreadPoolExecutor(3 * LIMIT) as pool, forgotten_after():
        running: list[Future[None]] = [pool.submit(hold) for _ in range(LIMIT)]
        wait_until(lambda: counter.stats("api")["inside"] == LIMIT, 20, "both run")
        waiting = [pool.submit(hold) for _ in range(LIMIT)]
        time.sleep(LEASE / 3)
        with hanging(server):
            late = [pool.submit(hold) for _ in range(LIMIT)]
            time.sleep(1.5 * LEASE)
        time.sleep(2 * LEASE)
        seen = counter.stats("api")
        counter.let_go("api")
        for each in (*running, *waiting, *late):
            each.result(WAITED_S)
        assert (seen["inside"], seen["max_inside"], seen["entries"]) == (LIMIT, LIMIT, LIMIT)
        assert counter.stats("api")["max_inside"] == LIMIT
