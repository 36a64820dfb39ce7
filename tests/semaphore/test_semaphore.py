"""Semaphore: who gets in, in which order, and how long it waits."""

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.core.asker import Notice, WaitingCall, asker_of
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Answer
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.signal_safe_event import SignalSafeEvent
from celery_semaphore.core.ticket import DEFAULT_PRIORITY
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import (
    SOON,
    Asked,
    Inside,
    held_by,
    known,
    occupied,
    refusal_of,
    thread,
    waiting,
)
from tests.support.process import wait_until


class TestLimit:
    def test_threads_share_one_object(self, store: MemoryStore) -> None:
        shared, inside = Semaphore("api", 3, store=store, timeout=SOON), Inside()

        def enter(_: int) -> None:
            with shared, inside():
                os.sched_yield()

        with ThreadPoolExecutor(12) as crowd:
            list(crowd.map(enter, range(300)))
        assert (inside.entries, inside.now) == (300, 0)
        assert 1 < inside.most <= 3
        assert list(store.resources()) == []

    def test_weights_add_up(self, store: MemoryStore) -> None:
        light = Semaphore("api", 4, store=store, timeout=SOON)
        heavy = Semaphore("api", 4, store=store, timeout=SOON, weight=3)
        inside = Inside()

        def enter(n: int) -> None:
            with heavy if n % 3 else light as permit, inside(permit.claims[0].weight):
                os.sched_yield()

        with ThreadPoolExecutor(8) as crowd:
            list(crowd.map(enter, range(120)))
        assert inside.entries == 120
        assert 3 < inside.most <= 4

    def test_each_key_has_the_limit_to_itself(self, store: MemoryStore) -> None:
        with (
            Semaphore("api", 1, store=store, key="a{}:/", timeout=0),
            Semaphore("api", 1, store=store, key="", timeout=0),
            Semaphore("api", 1, store=store, timeout=0),
            pytest.raises(SemaphoreTimeout),
            Semaphore("api", 1, store=store, key="", timeout=0),
        ):
            pass

    def test_one_object_is_entered_again_within(self, store: MemoryStore) -> None:
        twice = Semaphore("api", 2, store=store, timeout=SOON)
        with twice as first:
            with twice as second:
                assert first.holder != second.holder
                assert occupied(store) == 2
            assert [held.holder for held in twice.holders()] == [first.holder]
        assert occupied(store) == 0

    def test_each_leaves_with_its_own_permit(self, store: MemoryStore) -> None:
        """Left in another order than they were entered in."""
        one, other = (Semaphore(name, 1, store=store, timeout=SOON) for name in ("api", "disk"))
        first, second = ExitStack(), ExitStack()
        first.enter_context(one)
        second.enter_context(other)
        first.close()
        assert (occupied(store), occupied(store, "disk")) == (0, 1)
        second.close()
        assert occupied(store, "disk") == 0

    def test_asyncio_tasks_leave_with_their_own(self, store: MemoryStore) -> None:
        shared, kept = Semaphore("api", 2, store=store, timeout=0), []  # in a loop none may wait

        async def hold(inside: asyncio.Event, leave: asyncio.Event) -> None:
            with shared as permit:
                inside.set()
                await leave.wait()
                shared.extend(permit)
                kept.append(permit.holder)

        async def main() -> None:
            events = [asyncio.Event() for _ in range(4)]
            first = asyncio.create_task(hold(events[0], events[1]))
            await events[0].wait()
            second = asyncio.create_task(hold(events[2], events[3]))
            await events[2].wait()
            events[1].set()
            await first
            events[3].set()
            await second

        asyncio.run(main())
        assert len(set(kept)) == 2
        assert occupied(store) == 0

    def test_leaving_where_nobody_entered(self, api: Semaphore, store: MemoryStore) -> None:
        api.__enter__()
        failed: list[BaseException] = []

        def leave() -> None:
            try:
                api.__exit__(None, None, None)
            except RuntimeError as error:
                failed.append(error)

        with thread(leave):
            pass
        assert "acquire() and release()" in str(failed[0])
        assert occupied(store) == 1
        api.__exit__(None, None, None)  # a later test may look for blocks that were entered here

    def test_acquired_here_and_released_in_another_thread(
        self, api: Semaphore, store: MemoryStore
    ) -> None:
        permit = api.acquire()
        with thread(lambda: api.release(permit)):
            pass
        assert occupied(store) == 0


class TestOrder:
    def test_first_come(self, api: Semaphore, store: MemoryStore) -> None:
        came: list[int] = []

        def enter(n: int) -> None:
            with api:
                came.append(n)

        with ExitStack() as threads, api:
            for n in range(8):
                threads.enter_context(thread(lambda n=n: enter(n)))  # type: ignore[misc]
                wait_until(lambda n=n: waiting(store) == n + 1)  # type: ignore[misc]
        assert came == list(range(8))

    def test_one_line_with_parked_tasks(self, api: Semaphore, store: MemoryStore) -> None:
        claims, came = [Claim("api", None, 1)], []

        def enter(name: str) -> None:
            with api:
                came.append(name)

        def park(name: str) -> None:
            wait = Wait(Kind.PARK, priority=DEFAULT_PRIORITY)
            ticket = refusal_of(store.acquire(claims, name, wait)).ticket
            assert ticket
            assert not store.attach(ticket, claims, name.encode())

        with ExitStack() as threads:
            with api:
                threads.enter_context(thread(lambda: enter("first")))
                wait_until(lambda: waiting(store) == 1)
                park("second")
                threads.enter_context(thread(lambda: enter("third")))
                wait_until(lambda: waiting(store) == 3)
            # Somebody with a broker sends the message, and the task runs.
            (grant,) = wait_until(lambda: store.take(frozenset({"api"})))
            assert (grant.payload, came) == (b"second", ["first"])
            wait = Wait(Kind.PARK, ticket=grant.ticket)
            assert isinstance(store.acquire(claims, "second", wait), Permit)
            came.append("second")
            store.release("second", claims)
        assert came == ["first", "second", "third"]

    def test_no_polling(self, api: Semaphore, store: MemoryStore) -> None:
        """One acquire, and one more when it was called."""
        asked = Asked(store)
        with ExitStack() as threads, api:
            threads.enter_context(thread(lambda: api.release(api.acquire())))
            wait_until(lambda: known(store))
        assert [wait.kind for wait in asked.waits if wait] == [Kind.BLOCK] * 3
        assert not known(store)

    def test_it_asks_three_times_per_lease(self) -> None:
        """So that its place is kept, and a message that was missed delays it by no more."""
        store = MemoryStore(StoreOptions(lease=0.3))
        api, asked = Semaphore("api", 1, store=store, timeout=SOON), Asked(store)
        store.set_limit(0, "api")
        with thread(lambda: api.release(api.acquire())):
            wait_until(lambda: len(asked.waits) == 8)
            assert len({wait.ticket for wait in asked.waits[1:] if wait}) == 1
            assert {wait.longest for wait in asked.waits if wait} == {0.3 / 3}
            store.set_limit(None, "api")


class Interrupting(SignalSafeEvent):
    def __init__(self, error: type[BaseException]) -> None:
        super().__init__()
        self._error = error

    def wait(self, timeout: float) -> bool:
        raise self._error


class TestTimeout:
    def test_not_in_time(self, store: MemoryStore) -> None:
        hasty = Semaphore("api", 1, store=store, timeout=0.1)
        with hasty:
            start = time.monotonic()
            with pytest.raises(
                SemaphoreTimeout, match=r"'api'.*0.1 s: (saturated, )?1 of 1 in use"
            ):
                hasty.acquire()
            assert 0.1 <= time.monotonic() - start < 1
            assert waiting(store) == 0
        assert list(store.resources()) == []

    def test_asked_once(self, api: Semaphore, store: MemoryStore) -> None:
        with api:
            asked = Asked(store)
            with pytest.raises(SemaphoreTimeout):
                api.acquire(timeout=0)
            assert (asked.waits, waiting(store)) == ([None], 0)
        api.release(api.acquire(timeout=0))

    def test_who_asks_once_does_not_overtake(self, api: Semaphore, store: MemoryStore) -> None:
        with ExitStack() as threads, api:
            threads.enter_context(thread(lambda: api.release(api.acquire())))
            wait_until(lambda: waiting(store) == 1)
            with pytest.raises(SemaphoreTimeout, match="1 waiting before it"):
                Semaphore("api", 2, store=store).acquire(timeout=0)

    def test_this_time_goes_before_the_semaphores_own(self, store: MemoryStore) -> None:
        patient = Semaphore("api", 1, store=store, timeout=0)
        with patient, thread(lambda: patient.release(patient.acquire(timeout=SOON))):
            wait_until(lambda: waiting(store) == 1)
            patient.release(held_by(store))

    @pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, RuntimeError])
    def test_interrupted(
        self, api: Semaphore, store: MemoryStore, error: type[BaseException]
    ) -> None:
        """It leaves the line, and nothing is asked for it any more."""
        asker = asker_of(store)
        add = asker.add

        def interrupted(wait: HeldWait, notified: Notice | None = None) -> WaitingCall:
            del notified
            return add(wait, Interrupting(error))

        asker.add = interrupted  # type: ignore[method-assign]
        with api:
            with pytest.raises(error):
                api.acquire()
            assert waiting(store) == 0
            assert not asker._waiting
        assert list(store.resources()) == []

    def test_the_grant_of_who_gives_up_goes_on(self, api: Semaphore, store: MemoryStore) -> None:
        """It comes in the very moment."""
        claims = [Claim("api", None, 1)]
        assert isinstance(store.acquire(claims, "a"), Permit)

        class Unlucky(Asked):
            def answered(self, answer: Answer) -> Answer:
                if len(self.waits) == 2:
                    store.release("a", claims)
                    raise KeyboardInterrupt
                return answer

        Unlucky(store)
        with pytest.raises(KeyboardInterrupt):
            api.acquire()
        assert list(store.resources()) == []
