"""A server that is stopped immediately under load, again and again; some holders are killed as well."""

import os
import random
import signal
import time
from contextlib import suppress
from functools import partial
from multiprocessing import get_context

import pytest

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.stores.conftest import claim
from tests.support.counter import Counter, CounterServer
from tests.support.process import wait_until

from .conftest import OpenAt, StartServer

FORK = get_context("fork")
LEASE = 3.0
LIMIT = 4
AGAIN = Wait(Kind.REQUEUE, shortest=0.01, longest=0.2)

pytestmark = pytest.mark.race


def work(url: str, address: str, until: float) -> None:
    store, counter, n = (
        store_from_url(url, StoreOptions(lease=LEASE, timeout=1.0)),
        Counter(address),
        0,
    )
    while time.monotonic() < until:
        n += 1
        holder = f"{os.getpid()}-{n}"
        asked = time.monotonic()
        try:
            answer = store.acquire(claim(LIMIT), holder, AGAIN)
        except StoreUnavailable:
            answer = None
        if isinstance(answer, Permit):
            with counter.inside("api", holder):
                run(store, answer, asked)
        give_back(store, holder)
        time.sleep(random.uniform(0, 0.02))


def run(store: Store, permit: Permit, renewed: float) -> None:
    """For a while, renewing as a keeper does; who cannot for almost a lease stops."""
    ends = time.monotonic() + random.uniform(0.1, 3.0)
    while time.monotonic() < min(ends, renewed + 0.9 * LEASE):
        time.sleep(0.1)
        if random.random() < 0.002:
            os.kill(os.getpid(), signal.SIGKILL)
        asked = time.monotonic()
        try:
            renewal = store.renew([permit]).get(
                permit.holder
            )  # no answer while another has the row
            if renewal is Renewal.LOST:
                return
            renewed = asked if renewal else renewed
        except StoreUnavailable:
            pass


def began(counter: Counter, enough: int) -> bool:
    return bool(counter.stats("api")["entries"] >= enough)


def give_back(store: Store, holder: str) -> None:
    with suppress(StoreUnavailable):  # its lease ends
        store.release(holder, claim(LIMIT))


def test_a_parked_message_that_was_admitted_is_gone(
    start_server: StartServer, open_at: OpenAt
) -> None:
    """Its worker had not reported yet that it was sent, and its task may end before the server is back."""
    server = start_server(wal_writer_delay="10s")
    store = open_at(server.url)
    store.acquire(claim(), "outside")
    refusal = store.acquire(claim(), "x:1", Wait(Kind.PARK), MessageId("x"))
    assert isinstance(refusal, Refusal)
    assert refusal.ticket
    store.attach(refusal.ticket, claim(), b"message", name="x")
    (grant,) = store.take(store.release("outside", claim()).outgoing)
    carried = Wait(Kind.PARK, grant.ticket)
    assert isinstance(store.acquire(claim(), "x:2", carried, MessageId("x", "2")), Permit)
    server.kill()
    server.start()
    assert server.run("SELECT nonce FROM celery_semaphore.waiter") == []


@pytest.mark.slow
def test_never_above_the_limit(
    start_server: StartServer, counter_server: CounterServer, counter: Counter, open_at: OpenAt
) -> None:
    server = start_server(wal_writer_delay="10s")  # much of what was written last is lost
    until = time.monotonic() + 16.0
    running = [
        FORK.Process(target=work, args=(server.url, counter_server.address, until), daemon=True)
        for _ in range(10)
    ]
    for process in running:
        process.start()
    try:
        for _ in range(3):
            enough = counter.stats("api")["entries"] + LIMIT
            wait_until(partial(began, counter, enough), 10)
            server.stop_immediately()
            server.start()
        for process in running:
            process.join(30)
        assert {process.exitcode for process in running} <= {0, -signal.SIGKILL}
    finally:
        for process in running:
            process.kill()
    assert counter.stats("api")["max_inside"] == LIMIT
    store = open_at(server.url, lease=LEASE)

    def all_back() -> bool:
        store.reap()
        return store.snapshot("api").occupied == 0

    wait_until(all_back, 3 * LEASE)
    answers = [store.acquire(claim(LIMIT), f"last-{n}") for n in range(LIMIT + 1)]
    assert [isinstance(answer, Permit) for answer in answers] == [True] * LIMIT + [False]
