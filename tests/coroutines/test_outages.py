"""A server that stops while many wait: the log says so once, and once that it answers again."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from celery_semaphore import AsyncSemaphore, Semaphore
from celery_semaphore.core import outage as outage_module
from celery_semaphore.core.acquisition import Run
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.loop_calls import loop_calls_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conftest import StartServer
from tests.support.process import wait_until

from .loops import run_in

Outage = Callable[[], None]


def by_threads(store: Store, waiting: int, outage: Outage) -> None:
    api = Semaphore("api", waiting, store=store, timeout=60)

    @api
    def body() -> None:
        """Hold a permit."""

    with ThreadPoolExecutor(waiting + 1) as executor:
        for each in [executor.submit(call) for call in (outage, *[body] * waiting)]:
            each.result()


def by_coroutines(store: Store, waiting: int, outage: Outage) -> None:
    api = AsyncSemaphore("api", waiting, store=store, timeout=60)

    @api
    async def body() -> None:
        """Hold a permit."""

    async def main() -> None:
        await asyncio.gather(asyncio.to_thread(outage), *[body() for _ in range(waiting)])

    run_in("asyncio")(main())


# Each thread has a connection of its own, and a store has 50.
@pytest.mark.parametrize(("wait", "waiting"), [(by_threads, 40), (by_coroutines, 200)])
def test_it_is_logged_once(
    start_valkey: StartServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    wait: Callable[[Store, int, Outage], None],
    waiting: int,
) -> None:
    """All wait for a permit of another process, so that this one has none to renew."""
    monkeypatch.setattr(outage_module, "QUIET_S", 0.5)  # a server that hangs answers no call
    server, claims = start_valkey(), [Claim("api", None, waiting, waiting)]
    options = StoreOptions(lease=9.0)  # they ask three times in a lease
    store, other = store_from_url(server.url, options), store_from_url(server.url, options)
    caplog.set_level(logging.DEBUG, "celery_semaphore")
    permit = other.acquire(claims, "other")
    assert isinstance(permit, Permit)

    def are_in_line() -> bool:
        other.renew([permit])
        return other.snapshot("api").waiting == waiting

    def failures() -> int:
        return sum("trying again" in each.getMessage() for each in caplog.records.copy())

    def outage() -> None:
        wait_until(are_in_line, 30, "all are in line")
        server.pause()
        wait_until(lambda: failures() > 1.5 * waiting, 60, "more failed than wait")
        server.resume()
        other.release("other", claims)

    wait(store, waiting, outage)
    wait_until(lambda: "the store answers again" in caplog.text, 30, "a renewal notices the end")
    store.close()
    other.close()
    texts = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    asks, begin = sorted(texts[:2])
    assert asks.startswith("cannot ask for grants, retrying: ")
    assert begin.startswith("semaphore 'api': trying again: ")
    assert begin.endswith(" (others are not logged until the store answers)")
    assert texts[2:] == ["the store answers again"]


def test_calls_that_are_cancelled_in_it_take_no_permit(start_valkey: StartServer) -> None:
    """It lasts longer than a lease; the process goes on, and so does another call of it."""
    server = start_valkey()
    store = store_from_url(server.url, StoreOptions(lease=1.5))
    api = AsyncSemaphore("api", 1, store=store)

    async def main() -> float:
        permit = await api.acquire()
        calls = [asyncio.create_task(api.acquire()) for _ in range(10)]
        await until(lambda: store.snapshot("api").waiting == 10)
        alive = asyncio.create_task(api.acquire())
        await until(lambda: store.snapshot("api").waiting == 11)
        server.pause()
        for call in calls:
            call.cancel()
        released = asyncio.create_task(api.release(permit))
        await asyncio.sleep(
            2 * 1.5 + 2.5
        )  # an attempt lasts two seconds: a release is given up by then
        server.resume()
        begun = time.monotonic()
        await released
        await api.release(await alive)
        return time.monotonic() - begun

    assert run_in("asyncio")(main()) < 6  # else two seconds for each call
    assert store.snapshot("api").waiting == 0
    store.close()


def test_calls_that_a_server_makes_when_it_goes_on_take_no_permit(
    start_valkey: StartServer,
) -> None:
    """They were on their way when it began to hang, for longer than a lease, and were cancelled."""
    server, is_held, all_are_queued = start_valkey(), threading.Event(), threading.Event()
    store = store_from_url(server.url, StoreOptions(lease=1.5))
    api = AsyncSemaphore("api", 1, store=store)

    def hold() -> None:
        is_held.set()
        all_are_queued.wait()

    async def main() -> float:
        async with api:  # there is a connection
            pass
        made_calls = loop_calls_of(store)
        made_calls.queue(Run(hold))
        await until(is_held.is_set)  # else the thread may take some of the calls with it
        calls = [asyncio.create_task(api.acquire()) for _ in range(10)]
        await until(lambda: len(made_calls._queue._new) == len(calls))
        server.pause()
        await until(lambda: psutil.Process(server.pid).status() == psutil.STATUS_STOPPED)
        all_are_queued.set()  # and sent together
        await until(lambda: not made_calls._queue)
        for call in calls:
            call.cancel()
        # Queued after the calls had failed, which takes four seconds, and made once without an answer, as long.
        releaser = held_permits_in(store)._releaser
        await until(lambda: releaser._retry_at > 0 and not releaser._jobs)
        assert len(releaser._releases) == len(calls)  # none is given up
        server.resume()
        begun = time.monotonic()
        with server.client() as client:
            await until(client.ping)  # after what lay there
        async with api:
            return time.monotonic() - begun

    assert run_in("asyncio")(main()) < 6  # else two seconds for each call
    assert store.snapshot("api").waiting == 0
    store.close()


def test_a_release_in_one_of_more_than_a_lease(start_valkey: StartServer) -> None:
    """After its silence the store lets the permit last for two thirds of a lease, unless it is released."""
    server = start_valkey()
    store = store_from_url(server.url, StoreOptions(lease=6))
    api = AsyncSemaphore("api", 1, store=store)

    async def main() -> float:
        permit = await api.acquire()
        server.pause()
        await api.release(permit)
        await asyncio.sleep(9)  # two attempts of four seconds: by then it would be given up
        server.resume()
        begun = time.monotonic()
        async with api:
            return time.monotonic() - begun

    assert run_in("asyncio")(main()) < 3
    store.close()


async def until(predicate: Callable[[], bool]) -> None:
    await asyncio.to_thread(wait_until, predicate, 20)
