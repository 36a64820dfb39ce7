"""Semaphore among processes, on real servers; some are killed."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import pytest

from celery_semaphore import PermitLost, Semaphore, SemaphoreTimeout
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.ticket import DEFAULT_PRIORITY
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.redis import RedisStore
from tests.support.counter import Counter, CounterServer
from tests.support.held_permits import forgotten_after
from tests.support.process import ROOT, wait_until
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim, refusal_of

FORK = get_context("fork")
LEASE = 1.5
SOON = 20.0  # seconds in which everything happens that happens at all


@pytest.fixture(autouse=True)
def _forgotten_after() -> Iterator[None]:
    with forgotten_after():
        yield


@pytest.fixture
def api(server: RedisServer) -> Semaphore:
    return semaphore(server.url)


@pytest.fixture
def looker(server: RedisServer, open_at: OpenAt) -> RedisStore:
    """Sees what the books say."""
    return open_at(server.url, lease=LEASE)


def semaphore(url: str, limit: int = 1, *, lease: float = LEASE, **options: Any) -> Semaphore:
    return Semaphore("api", limit, url=url, lease=lease, **{"timeout": SOON, **options})


@contextmanager
def process(target: Callable[..., object], *args: Any) -> Iterator[Any]:
    """A child; who was not killed must end by itself, and well."""
    running = FORK.Process(target=target, args=args, daemon=True)
    running.start()
    try:
        yield running
        running.join(SOON)
        assert running.exitcode in (0, -9)
    finally:
        running.kill()
        running.join()


def hold(url: str, limit: int = 1) -> None:
    """Until it is killed."""
    with semaphore(url, limit):
        threading.Event().wait()


def enter(url: str, address: str, limit: int, times: int) -> None:
    api, counter = semaphore(url, limit), Counter(address)
    for _ in range(times):
        with api as permit, counter.inside("api", permit.holder):
            pass


def enter_once(url: str, address: str, name: str) -> None:
    with semaphore(url), Counter(address).inside("api", name):
        pass


def entered(counter: Counter) -> list[str]:
    return [task for _, event, task, *_ in counter.log("api") if event == "entered"]


@pytest.fixture
def address(counter_server: CounterServer, counter: Counter) -> str:
    return counter_server.address


class TestProcesses:
    def test_never_above_the_limit(
        self, server: RedisServer, address: str, counter: Counter, looker: RedisStore
    ) -> None:
        """All four begin together: on a busy machine one may end before the next one begins."""
        api = semaphore(server.url, 2)
        first = [api.acquire() for _ in range(2)]
        with (
            process(enter, server.url, address, 2, 25),
            process(enter, server.url, address, 2, 25),
            process(enter, server.url, address, 2, 25),
            process(enter, server.url, address, 2, 25),
        ):
            wait_until(lambda: looker.snapshot("api").waiting == 4)
            for permit in first:
                api.release(permit)
        seen = counter.stats("api")
        assert (seen["entries"], seen["completed"]) == (100, 100)
        assert seen["max_inside"] == 2
        assert list(looker.resources()) == []

    def test_first_come(
        self,
        server: RedisServer,
        api: Semaphore,
        address: str,
        counter: Counter,
        looker: RedisStore,
    ) -> None:
        """Without polling: nobody waits for as long as until it would ask again."""
        lease = 60.0
        first = semaphore(server.url, lease=lease)

        def come(name: str) -> None:
            with semaphore(server.url, lease=lease), Counter(address).inside("api", name):
                pass

        permit = first.acquire()
        with process(come, "0"):
            wait_until(lambda: looker.snapshot("api").waiting == 1)
            with process(come, "1"):
                wait_until(lambda: looker.snapshot("api").waiting == 2)
                with process(come, "2"):
                    wait_until(lambda: looker.snapshot("api").waiting == 3)
                    first.release(permit)
                    start = time.monotonic()
        assert time.monotonic() - start < lease / 3 / 2
        assert entered(counter) == ["0", "1", "2"]

    def test_one_line_with_parked_tasks(
        self, server: RedisServer, address: str, counter: Counter, looker: RedisStore
    ) -> None:
        permit = looker.acquire(claim(), "a")
        assert isinstance(permit, Permit)
        with process(enter_once, server.url, address, "first"):
            wait_until(lambda: looker.snapshot("api").waiting == 1)
            parks = Wait(Kind.PARK, priority=DEFAULT_PRIORITY)
            parked = refusal_of(looker.acquire(claim(), "second", parks)).ticket
            assert parked
            looker.attach(parked, claim(), b"second")
            with process(enter_once, server.url, address, "third"):
                wait_until(lambda: looker.snapshot("api").waiting == 3)
                looker.release("a", claim())
                # The semaphore has no broker: what it handed on is found by who has one.
                (grant,) = wait_until(lambda: looker.take(looker.reap()), SOON)
                wait = Wait(Kind.PARK, ticket=grant.ticket)
                assert isinstance(looker.acquire(claim(), "second", wait), Permit)
                assert (grant.payload, entered(counter)) == (b"second", ["first"])
                looker.release("second", claim())
        assert entered(counter) == ["first", "third"]


class TestDeaths:
    def test_the_permit_of_a_killed_holder_comes_back(
        self, server: RedisServer, api: Semaphore, looker: RedisStore
    ) -> None:
        """Within a lease, and a third of it: then the first in the line asks again by itself."""
        with process(hold, server.url) as holder:
            wait_until(lambda: api.available() == 0)
            wait_until(lambda: renewed(api), SOON)
            holder.kill()
            start = time.monotonic()
            with api as permit:
                waited = time.monotonic() - start
                assert LEASE / 2 < waited < LEASE * 4 / 3 + 0.5
                assert [held.holder for held in api.holders()] == [permit.holder]

    def test_a_killed_caller_blocks_nobody(
        self, server: RedisServer, api: Semaphore, looker: RedisStore
    ) -> None:
        permit = api.acquire()
        with process(hold, server.url) as dead:
            wait_until(lambda: looker.snapshot("api").waiting == 1)
            dead.kill()
            dead.join()
            api.release(permit)
            with api as permit:
                assert [held.holder for held in api.holders()] == [permit.holder]
                assert not any(w.reachable for w in looker.snapshot("api").waiters)

    def test_a_paused_holder_learns_that_its_permit_is_lost(
        self, server: RedisServer, start_proxy: Callable[[int], Proxy]
    ) -> None:
        proxy, lost = start_proxy(server.port), threading.Event()
        url = f"redis://127.0.0.1:{proxy.port}/0"
        cut_off = semaphore(url, on_lost=lambda permit: lost.set())
        permit = cut_off.acquire()
        proxy.hang()
        assert lost.wait(SOON)
        with semaphore(server.url) as other:
            proxy.restore()
            assert other.token > permit.token
            with pytest.raises(PermitLost):
                wait_until(lambda: cut_off.extend(permit))
        cut_off.release(permit)


class TestForks:
    def test_a_child_leaves_its_parents_permit_alone(
        self, server: RedisServer, api: Semaphore
    ) -> None:
        """It neither gives it back nor renews it, and gets one of its own."""
        two = semaphore(server.url, 2)

        def child() -> None:
            two.release(permit)
            two.__exit__(None, None, None)
            assert len(two.holders()) == 1
            with two as mine:
                wait_until(lambda: len(two.holders()) == 2 and two.holders()[1].expires_at > mine.expires_at + LEASE, SOON)  # fmt: skip
                assert [held.holder for held in two.holders()] == [permit.holder, mine.holder]

        with two as permit:
            with process(child) as running:
                pass
            assert running.exitcode == 0
            assert [held.holder for held in two.holders()] == [permit.holder]
        assert two.holders() == ()

    def test_a_parents_permit_ends_with_the_parent(
        self, server: RedisServer, api: Semaphore
    ) -> None:
        """Its child lives on, uses the same semaphore, and does not keep it alive."""

        def parent() -> None:
            two = semaphore(server.url, 2)
            with two:
                if os.fork() == 0:
                    with two:
                        threading.Event().wait(3 * LEASE)
                    os._exit(0)
                threading.Event().wait()

        with process(parent) as running:
            wait_until(lambda: len(api.holders()) == 2, SOON)
            running.kill()
            wait_until(lambda: len(api.holders()) == 1, LEASE + 1)
            (left,) = api.holders()
            assert f"/{running.pid}:" not in left.holder
            wait_until(lambda: api.holders() == (), SOON)


class TestServers:
    def test_a_server_that_comes_back(
        self, server: RedisServer, start_proxy: Callable[[int], Proxy], looker: RedisStore
    ) -> None:
        """Who waits goes on waiting, at its place."""
        proxy = start_proxy(server.port)
        api = semaphore(f"redis://127.0.0.1:{proxy.port}/0", lease=30.0)
        looker.acquire(claim(), "a")
        came = threading.Event()

        def come() -> None:
            with api:
                came.set()

        thread = threading.Thread(target=come, daemon=True)
        thread.start()
        wait_until(lambda: looker.snapshot("api").waiting == 1)
        proxy.cut()
        looker.release("a", claim())
        assert not came.wait(0.2)
        proxy.restore()
        assert came.wait(5)  # a question was not answered, and so it asked before it would have
        thread.join(SOON)
        wait_until(lambda: list(looker.resources()) == [])

    def test_a_server_out_of_reach(
        self, server: RedisServer, start_proxy: Callable[[int], Proxy]
    ) -> None:
        proxy = start_proxy(server.port)
        api = semaphore(f"redis://127.0.0.1:{proxy.port}/0", timeout=0.3)
        proxy.cut()
        with pytest.raises(SemaphoreTimeout, match="did not answer"):
            api.acquire()
        proxy.restore()
        api.release(api.acquire())

    def test_a_server_that_forgot(self, start_server: Callable[..., RedisServer]) -> None:
        """The living first put their permits back."""
        server = start_server()
        api = semaphore(server.url)
        with api as permit:
            server.restart(keep_data=False)
            with pytest.raises(SemaphoreTimeout):
                semaphore(server.url, timeout=2 * LEASE).acquire()
            api.extend(permit)
        assert api.available() == 1

    def test_a_server_that_must_not_be_used(self, start_server: Callable[..., RedisServer]) -> None:
        server = start_server(maxmemory_policy="allkeys-lru")
        with pytest.raises(ConfigurationError, match="allkeys-lru"):
            semaphore(server.url).acquire()


def renewed(api: Semaphore) -> bool:
    (held,) = api.holders()
    return held.expires_at > held.acquired_at + LEASE


def test_workers_and_others_share_one_limit(server: RedisServer) -> None:
    """As docs/howto/outside-tasks.md says: the same prefix and lease."""
    store = store_from_url(server.url)
    assert isinstance(store.acquire(claim(2), "a task"), Permit)
    with Semaphore("api", limit=2, url=server.url) as permit:
        assert store.snapshot("api").occupied == 2
        assert isinstance(permit, Permit)


def test_no_driver_is_imported_before_it_is_needed() -> None:
    code = """
import sys, celery_semaphore
assert "celery_semaphore.semaphore" not in sys.modules
assert len(celery_semaphore.__all__) <= 14
celery_semaphore.Semaphore("api", limit=5, url="memory://")
assert "redis" not in sys.modules
celery_semaphore.Semaphore("api", limit=5, url="redis://localhost")
assert "redis" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
