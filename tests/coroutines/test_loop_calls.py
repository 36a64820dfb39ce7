"""LoopCalls: the threads that make the calls of all loops, when they begin and end, and when the store hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from queue import Empty
from typing import Any, Self

import pytest

from celery_semaphore import AsyncSemaphore, SemaphoreTimeout
from celery_semaphore.core import acquisition, background_thread, loop_calls, loop_waiter
from celery_semaphore.core.acquisition import Run
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.loop_calls import LoopCalls, loop_calls_of
from celery_semaphore.core.permit import Permit, Renewals
from celery_semaphore.core.queued_calls import QueuedCall, QueuedCalls
from celery_semaphore.core.store import Acquire, Release
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.errors import ResourceBusy, SemaphoreError, StoreUnavailable
from celery_semaphore.semaphore_base import extend
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import SOON, in_child, known, occupied
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .loops import soon_nothing_is_left, threads_of_ours, until

ONE = Claim("api", None, 1)


@pytest.fixture
def store(store: MemoryStore) -> MemoryStore:
    held_permits_in(store).check()  # else that is the first call
    return store


async def acquired_and_released(api: AsyncSemaphore, timeout: float = SOON) -> float:  # noqa: ASYNC109
    since = time.monotonic()
    async with asyncio.timeout(timeout):
        await api.release(await api.acquire())
    return time.monotonic() - since


class TestThreads:
    def test_a_call_that_waits_stops_no_other(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor when both are queued before the first thread has begun, or while it waits for a call."""
        acquire, begun, over = store.acquire, threading.Event(), threading.Event()

        def locked(claims: Any, *given: Any) -> Any:
            if claims[0].semaphore == "locked":
                begun.set()
                assert over.wait(SOON)
            return acquire(claims, *given)

        monkeypatch.setattr(store, "calls_at_once", 4)
        monkeypatch.setattr(store, "acquire", locked)
        slow, free = (AsyncSemaphore(name, 9, store=store) for name in ("locked", "free"))

        async def main() -> None:
            first = asyncio.create_task(acquired_and_released(slow))
            await until(begun.is_set)  # in the only thread
            await acquired_and_released(free, SOON / 2)
            over.set()
            await first
            for _ in range(5):
                over.clear()
                waits = [asyncio.create_task(acquired_and_released(slow)) for _ in range(9)]
                await asyncio.create_task(acquired_and_released(free, SOON / 2))
                over.set()
                await asyncio.gather(*waits)
            assert len(loop_calls_of(store)._threads) == 4

        asyncio.run(main())

    def test_a_renewal_is_a_call_of_its_resource(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        put, found = LoopCalls._put, list[tuple[str, ...]]()

        def noted(calls: LoopCalls, call: QueuedCall) -> None:
            if isinstance(call.what, Run):
                found.append(call.resources)
            put(calls, call)

        monkeypatch.setattr(LoopCalls, "_put", noted)
        api = AsyncSemaphore("api", 1, store=store)

        async def main() -> None:
            permit = await api.acquire()
            await api.available()
            await api.extend(permit)
            await api.release(permit)

        asyncio.run(main())
        assert found == [(), ("api",)]

    def test_there_are_no_more_than_the_store_says(self, store: MemoryStore) -> None:
        api = AsyncSemaphore("api", 50, store=store)

        async def main() -> None:
            await asyncio.gather(*[acquired_and_released(api) for _ in range(50)])
            assert len(loop_calls_of(store)._threads) == 1

        asyncio.run(main())

    def test_each_ends_and_another_begins(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(loop_calls, "IDLE_S", 0.02)
        api = AsyncSemaphore("api", 1, store=store)

        async def main() -> None:
            for _ in range(3):
                await acquired_and_released(api)
                await until(lambda: not loop_calls_of(store)._threads)

        asyncio.run(main())

    def test_a_call_that_is_queued_when_its_thread_ends(self, store: MemoryStore) -> None:
        class Late(QueuedCalls):
            """Says once that nothing came, although something has."""

            is_late = True

            def take(self, timeout: float) -> list[QueuedCall]:
                if self.is_late and self:
                    self.is_late = False
                    raise Empty
                return super().take(timeout)

        queue = loop_calls_of(store)._queue = Late(lambda: 1)
        asyncio.run(acquired_and_released(AsyncSemaphore("api", 1, store=store)))
        assert not queue.is_late

    def test_a_forked_child_has_its_own(self, store: MemoryStore) -> None:
        api = AsyncSemaphore("api", 1, store=store)
        asyncio.run(acquired_and_released(api))
        assert in_child(lambda: asyncio.run(acquired_and_released(api, 3.0)) < 3.0)

    @pytest.mark.parametrize("moment", ["before", "after"])
    @pytest.mark.parametrize(
        ("owner", "name"),
        [
            (LoopCalls, "_start"),
            (background_thread.BackgroundThread, "start"),
            (threading.Thread, "start"),
            (threading.Event, "wait"),
        ],
    )
    def test_an_error_while_one_is_started(
        self,
        store: MemoryStore,
        monkeypatch: pytest.MonkeyPatch,
        owner: type[Any],
        name: str,
        moment: str,
    ) -> None:
        """Of a signal handler, say: later calls are made all the same, and none is counted for ever."""
        api, calls = AsyncSemaphore("api", 9, store=store), loop_calls_of(store)
        real = getattr(owner, name)

        class Interrupted(BaseException):
            pass

        def interrupted(*given: Any) -> None:
            monkeypatch.undo()
            if moment == "after":
                real(*given)
            raise Interrupted

        async def queue() -> None:
            monkeypatch.setattr(owner, name, interrupted)
            calls.queue(Run(lambda: None))

        with pytest.raises(Interrupted):
            asyncio.run(queue())
        asyncio.run(acquired_and_released(api, 5.0))
        wait_until(lambda: not calls._left, SOON, "no call is left")
        assert len(calls._threads) == 1

    def test_one_that_begins_though_its_start_failed_ends(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """A recursion may be too deep there, and its error is that of a thread that cannot be started."""
        calls, start = loop_calls_of(store), threading.Thread.start
        monkeypatch.setattr(loop_calls, "IDLE_S", 0.1)

        def fail(thread: threading.Thread) -> None:
            start(thread)
            raise RecursionError

        async def queue() -> None:
            monkeypatch.setattr(threading.Thread, "start", fail)
            with pytest.raises(RecursionError):
                calls.queue(Run(lambda: None))
            monkeypatch.setattr(threading.Thread, "start", start)

        before = threads_of_ours()
        asyncio.run(queue())
        wait_until(lambda: threads_of_ours() <= before, SOON, "it has ended")
        assert not caplog.records
        asyncio.run(acquired_and_released(AsyncSemaphore("api", 1, store=store)))

    @pytest.mark.parametrize(
        "name", ["celery-semaphore-calls", "celery-semaphore-leases", "celery-semaphore-releases"]
    )
    def test_what_is_released_in_a_thread_that_has_not_begun(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        """The collector may close a coroutine there, and what starts the thread waits for it."""
        set_ident, released = threading.Thread._set_ident, list[str]()  # type: ignore[attr-defined]
        api, held_permits, calls = (
            AsyncSemaphore("api", 1, store=store),
            held_permits_in(store),
            loop_calls_of(store),
        )

        def close(thread: threading.Thread) -> None:
            set_ident(thread)
            if thread.name == name and not released:
                released.append(name)
                calls.release_soon("a", [ONE])
                held_permits.release_later("b", [ONE])

        monkeypatch.setattr(threading.Thread, "_set_ident", close)

        def use() -> None:
            asyncio.run(acquired_and_released(api))
            held_permits.release_later("c", [ONE])

        using = threading.Thread(target=use, daemon=True)
        using.start()
        using.join(SOON)
        assert released == [name]
        assert not using.is_alive()
        asyncio.run(acquired_and_released(api))

    def test_no_thread_can_be_started(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Nor are calls left whose callers saw that another one was starting it."""
        calls, start = loop_calls_of(store), background_thread.BackgroundThread.start

        async def main() -> None:
            loop = asyncio.get_running_loop()
            trusting = QueuedCall(Run(lambda: None), loop.create_future())

            def fail(_: Any) -> None:
                calls._left.add(trusting)
                calls._queue.put(trusting)
                raise RuntimeError("can't start new thread")

            monkeypatch.setattr(background_thread.BackgroundThread, "start", fail)
            with pytest.raises(RuntimeError, match="new thread"):
                calls.queue(Run(lambda: None))
            monkeypatch.setattr(background_thread.BackgroundThread, "start", start)
            assert trusting.answer is not None
            with pytest.raises(RuntimeError, match="new thread"):
                await asyncio.wait_for(trusting.answer, SOON)
            assert not calls._left

        asyncio.run(main())
        asyncio.run(acquired_and_released(AsyncSemaphore("api", 1, store=store)))


class TestUrgent:
    """What is asked once a permit is kept for the call, and for no other."""

    @pytest.fixture
    def urgent(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Return whether each acquire was."""
        put, found = LoopCalls._put, list[bool]()

        def noted(calls: LoopCalls, call: QueuedCall) -> None:
            if isinstance(call.what, Acquire):
                found.append(call.urgent)
            put(calls, call)

        monkeypatch.setattr(LoopCalls, "_put", noted)
        return found

    def test_what_was_granted(self, store: MemoryStore, urgent: list[bool]) -> None:
        api = AsyncSemaphore("api", 1, store=store)

        async def main() -> None:
            permit = await api.acquire()
            acquiring = asyncio.create_task(api.acquire())
            await until(lambda: known(store))
            await api.release(permit)
            await api.release(await acquiring)

        asyncio.run(main())
        assert urgent == [False, False, True]

    def test_nothing_else_that_asks_again(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, urgent: list[bool]
    ) -> None:
        """As after a third of a lease: of many that wait, they would keep all others out."""
        monkeypatch.setattr(acquisition, "ASKS", 1000)
        api = AsyncSemaphore("api", 1, store=store)
        store.acquire([ONE], "other")

        async def main() -> None:
            acquiring = asyncio.create_task(api.acquire())
            await until(lambda: len(urgent) > 2)
            acquiring.cancel()
            await asyncio.wait([acquiring])

        asyncio.run(main())
        assert urgent == [False] * len(urgent)


class TestPostgreSQL:
    def test_a_locked_row_stops_no_other_semaphore(self, postgres: PostgresServer) -> None:
        """One call of each is queued in the same step of the loop, once without a thread and once with an idle one."""
        locked, free = (AsyncSemaphore(name, 9, url=postgres.url) for name in ("locked", "free"))

        async def both() -> None:
            slow = asyncio.create_task(acquired_and_released(locked))
            await asyncio.create_task(acquired_and_released(free))
            assert not slow.done()
            lock.rollback()
            await slow

        async def warm() -> None:
            for each in (locked, free):
                await acquired_and_released(each)

        asyncio.run(warm())
        with postgres.client() as lock:
            lock.autocommit = False
            for _ in range(3):
                lock.execute("SELECT pg_advisory_xact_lock(celery_semaphore.v1_lock_key('locked'))")
                asyncio.run(both())

    def test_many_that_wait_for_a_locked_row_stop_no_other_semaphore(
        self, postgres: PostgresServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """Nor is that one told that the store does not answer."""
        store = store_from_url(postgres.url, StoreOptions(timeout=2.0))
        locked, free = (AsyncSemaphore(name, 9, store=store) for name in ("locked", "free"))
        was_made = list[float]()

        async def main() -> None:
            await acquired_and_released(free)
            lock.execute("SELECT pg_advisory_xact_lock(celery_semaphore.v1_lock_key('locked'))")
            crowd = [asyncio.create_task(acquired_and_released(locked, 60)) for _ in range(40)]
            await until(lambda: "'locked'" in caplog.text)
            await until(lambda: calls_that_wait_for_a_lock(lock) == 2)
            for _ in range(20):
                was_made.append(await acquired_and_released(free))
                await asyncio.sleep(0.1)
            with pytest.raises(ResourceBusy, match="lock timeout"):
                store.acquire([Claim("locked", None, 9)], "other")
            lock.rollback()
            await asyncio.gather(*crowd)

        with postgres.client() as lock:
            lock.autocommit = False
            asyncio.run(main())
        assert max(was_made) < 1.0, "none has waited for the lock"
        assert "'free'" not in caplog.text
        soon_nothing_is_left(store)
        store.close()

    def test_seven_threads_of_ours_at_most(self, postgres: PostgresServer) -> None:
        """Four of them make calls, however many coroutines wait."""
        api, before = AsyncSemaphore("api", 2, url=postgres.url), threads_of_ours()

        async def main() -> None:
            some = asyncio.gather(*[acquired_and_released(api, 60) for _ in range(50)])
            await asyncio.sleep(0.2)
            most = len(threads_of_ours() - before)
            await some
            assert 1 < len(loop_calls_of(api._store)._threads) <= 4
            assert most <= 7

        asyncio.run(main())


def calls_that_wait_for_a_lock(client: Any) -> int:
    ((waiting,),) = client.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchall()
    return int(waiting)


class Hanging(MemoryStore):
    """Answers nothing after a while, which ends when all is ``queued``; then it answers again."""

    hangs = True

    def __init__(self) -> None:
        super().__init__()
        self.queued = threading.Event()
        self.hung: list[str] = []

    def check(self, *, parks: bool = False) -> list[str]:
        self._hang("check")
        return super().check(parks=parks)

    def snapshot(self, *given: Any, **named: Any) -> Any:
        self._hang("snapshot")
        return super().snapshot(*given, **named)

    def call_all(self, calls: Any) -> Any:
        self._hang("acquire" if any(isinstance(each, Acquire) for each in calls) else "release")
        return super().call_all(calls)

    def _hang(self, call: str) -> None:
        if self.hangs:
            self.hung.append(call)
            assert self.queued.wait(SOON)
            error = StoreUnavailable("hangs")
            error.add_note("at once")
            raise error


class TestHangingStore:
    """What is queued while one call is under way is not made: it would wait for as long, one after the other."""

    def test_each_call_has_an_error_of_its_own(self) -> None:
        """Else the report of one request would show what another one was at."""
        store = Hanging()
        api = AsyncSemaphore("api", 1, store=store)

        async def request(number: int) -> int:
            try:
                return dict[int, int]()[number]
            except KeyError:
                return await api.available()

        async def main() -> list[Any]:
            requests = [asyncio.create_task(request(number)) for number in range(5)]
            await asyncio.sleep(0)
            store.queued.set()
            return await asyncio.gather(*requests, return_exceptions=True)

        errors = asyncio.run(main())
        assert [(type(each), str(each), each.reason) for each in errors] == [
            (StoreUnavailable, "hangs", "hangs")
        ] * 5
        assert [each.__context__.args for each in errors] == [(number,) for number in range(5)]
        assert not any(each.__suppress_context__ for each in errors), "both are shown"
        errors[0].add_note("of request 0")
        assert [each.__notes__ for each in errors] == [
            ["at once", "of request 0"],
            *[["at once"]] * 4,
        ]
        assert store.hung == ["snapshot"]

    def test_an_error_that_cannot_be_copied(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of a store by another author: its calls get that one."""

        class Own(StoreUnavailable):
            def __new__(cls, *args: Any, code: int) -> Self:
                return super().__new__(cls, *args)

            def __init__(self, message: str, code: int) -> None:
                super().__init__(message)
                self.code = code

        async def main() -> Any:
            store = MemoryStore()
            given = Own("mine", code=7)

            def fail(*_: Any, **__: Any) -> None:
                raise given

            monkeypatch.setattr(store, "snapshot", fail)
            with pytest.raises(Own) as got:
                async with asyncio.timeout(SOON):
                    await AsyncSemaphore("api", 1, store=store).available()
            assert got.value is given

        asyncio.run(main())

    @pytest.mark.parametrize("hangs", ["snapshot", "check", "acquire"])
    def test_all_wait_for_one_call(self, hangs: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(acquisition, "RETRY_DELAY_S", SOON)
        store = Hanging()
        api = AsyncSemaphore("api", 1, store=store)
        held_permits_in(store)._checked = hangs != "check"

        async def main() -> None:
            some = [
                asyncio.create_task(api.available() if hangs == "snapshot" else api.acquire(60))
                for _ in range(150)
            ]
            asked_once = asyncio.create_task(api.acquire(timeout=0))
            await asyncio.sleep(0)
            store.queued.set()
            with pytest.raises(SemaphoreTimeout, match="hangs"):
                await asked_once
            store.hangs = False
            # The acquire that gave up is released meanwhile.
            assert [call for call in store.hung if call != "release"] == [hangs]
            for each in some:
                each.cancel()
            await asyncio.gather(*some, return_exceptions=True)

        asyncio.run(main())
        soon_nothing_is_left(store)

    def test_a_semaphore_without_a_limit_goes_on_trying(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What it does about an outage needs no call, which another outage would end."""
        store = Hanging()
        store.acquire([Claim("api", None, 1)], "declares it")
        store.release("declares it", [ONE])
        held_permits_in(store)._checked = True
        api = AsyncSemaphore("api", store=store, timeout=SOON)
        put, queued = LoopCalls._put, list[object]()

        def kept(calls: LoopCalls, call: QueuedCall) -> None:
            queued.append(call.what)
            put(calls, call)

        monkeypatch.setattr(LoopCalls, "_put", kept)

        async def main() -> None:
            acquiring = asyncio.create_task(api.acquire())
            await until(lambda: store.hung == ["acquire"])
            store.hangs = False
            store.queued.set()
            await api.release(await acquiring)

        asyncio.run(main())
        assert not any(isinstance(each, Run) for each in queued)

    def test_a_busy_resource_is_the_answer_of_its_calls_alone(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """They would wait for it one after the other, and others would not."""
        calls, made, queued = loop_calls_of(store), store.acquire, list[QueuedCall]()

        def busy(claims: Any, *given: Any) -> Any:
            if claims != [ONE]:
                return made(claims, *given)
            for call in queued:
                calls._queue.put(call)
            raise ResourceBusy("busy")

        monkeypatch.setattr(store, "acquire", busy)

        async def main() -> None:
            loop = asyncio.get_running_loop()
            for claim in (ONE, Claim("free", None, 1)):
                queued.append(QueuedCall(Acquire([claim], "other"), loop.create_future()))
            answers = [each.answer for each in queued if each.answer]
            first = calls.queue(Acquire([ONE], "one"))
            said = await asyncio.gather(first, *answers, return_exceptions=True)
            assert [type(each) for each in said] == [ResourceBusy, ResourceBusy, Permit]

        asyncio.run(main())

    def test_what_is_taken_together_with_a_busy_resource(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A broken record has no answer, too; the calls of other resources are made all the same."""
        api, calls = AsyncSemaphore("api", 1, store=store), loop_calls_of(store)
        free = Claim("free", None, 1)
        store.acquire([free], "held")

        async def main() -> None:
            permit = await api.acquire()
            monkeypatch.setattr(store, "renew", lambda _: Renewals())
            future = asyncio.get_running_loop().create_future
            some = [
                QueuedCall(Run(partial(extend, store, permit), [ONE]), future()),
                QueuedCall(Acquire([ONE], "another"), future()),
                QueuedCall(Release("held", [free]), future()),
                QueuedCall(Run(api._free), future()),
                QueuedCall(Acquire([free], "other"), future()),
            ]
            calls.made(some)
            answers = [each.answer for each in some if each.answer]
            said = await asyncio.gather(*answers, return_exceptions=True)
            busy, permits = ResourceBusy, Permit
            assert [type(each) for each in said] == [busy, busy, type(None), int, permits]
            store.release("other", [free])
            await api.release(permit)

        asyncio.run(main())

    def test_a_resource_that_could_not_renew_is_busy_until_it_answers(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A call that was cancelled before it was made says nothing of it."""
        calls, api = loop_calls_of(store), AsyncSemaphore("api", 1, store=store)

        async def main() -> None:
            late, other = (
                QueuedCall(Acquire([ONE], "other"), asyncio.get_running_loop().create_future())
                for _ in range(2)
            )
            permit = await api.acquire()
            with monkeypatch.context() as patch:
                patch.setattr(store, "renew", lambda _: Renewals())
                with pytest.raises(ResourceBusy, match=permit.holder):
                    await api.extend(permit)
            await until(lambda: calls._queue._busy)  # its thread notes it after the answer
            assert late.answer
            assert late.answer.cancel()
            calls.made([late])
            assert calls._queue._busy == {"api"}
            calls.made([other])
            assert not calls._queue._busy
            await api.release(permit)

        asyncio.run(main())

    def test_a_release_is_repeated(self) -> None:
        store = Hanging()
        store.hangs = False
        api = AsyncSemaphore("api", 1, store=store)

        async def main() -> None:
            permit = await api.acquire()
            store.hangs = True
            asking = asyncio.create_task(api.available())
            await asyncio.sleep(0)
            releasing = api.release(permit)
            store.queued.set()
            await releasing
            assert store.hung == ["snapshot"]
            store.hangs = False
            with pytest.raises(StoreUnavailable):
                await asking

        asyncio.run(main())
        soon_nothing_is_left(store)

    def test_an_answer_waits_for_no_other_call(self, store: MemoryStore) -> None:
        """Each loop is woken as soon as it has one."""
        is_heard = threading.Event()

        async def main() -> None:
            calls = loop_calls_of(store)
            first = calls.queue(Run(lambda: time.sleep(0.05)))  # the others are taken together
            second, third = calls.queue(Run(lambda: 2)), calls.queue(Run(lambda: is_heard.wait(2)))
            await first
            assert await second == 2
            is_heard.set()
            assert await third

        asyncio.run(main())


class TestTimeouts:
    """What timed out has left the line when its caller hears of it, if the store answers soon."""

    def test_it_is_in_line_no_more(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        api, release = AsyncSemaphore("api", 1, store=store), store.release
        store.acquire([ONE], "other")

        released = list[object]()

        def slowly(name: Any, claims: Any) -> Any:
            time.sleep(0.05)
            released.append(name)
            return release(name, claims)

        monkeypatch.setattr(store, "release", slowly)

        async def main() -> None:
            with pytest.raises(SemaphoreTimeout):
                await api.acquire(timeout=0.1)
            assert isinstance(released[-1], Ticket)

        asyncio.run(main())
        release("other", [ONE])
        soon_nothing_is_left(store)

    def test_it_waits_for_a_bounded_time(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """And it leaves the line all the same."""
        monkeypatch.setattr(loop_waiter, "LEAVE_TIMEOUT_S", 0.1)
        api, release, over = AsyncSemaphore("api", 1, store=store), store.release, threading.Event()
        released = list[object]()
        store.acquire([ONE], "other")

        def hangs(*given: Any) -> Any:
            over.wait(SOON)
            released.append(given)
            return release(*given)

        monkeypatch.setattr(store, "release", hangs)

        async def main() -> None:
            async with asyncio.timeout(SOON / 2):
                with pytest.raises(SemaphoreTimeout):
                    await api.acquire(timeout=0.1)
            assert released == []

        asyncio.run(main())
        over.set()
        wait_until(lambda: released, SOON, "it is released all the same")
        release("other", [ONE])
        soon_nothing_is_left(store)

    def test_cancelled_while_it_leaves(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        api, release, leaves = AsyncSemaphore("api", 1, store=store), store.release, list[object]()
        store.acquire([ONE], "other")

        def slowly(*given: Any) -> Any:
            leaves.append(given)
            time.sleep(0.1)
            return release(*given)

        monkeypatch.setattr(store, "release", slowly)

        async def main() -> None:
            acquiring = asyncio.create_task(api.acquire(timeout=0.1))
            await until(lambda: leaves)
            acquiring.cancel()
            await asyncio.wait([acquiring])
            assert acquiring.cancelled()

        asyncio.run(main())
        release("other", [ONE])
        soon_nothing_is_left(store)


class TestGivenUp:
    """What a coroutine leaves when it is cancelled."""

    @pytest.mark.parametrize("begun", [False, True])
    def test_only_what_was_asked_is_released(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, *, begun: bool
    ) -> None:
        """A crowd that is cancelled while its acquires are queued leaves no work."""
        api, called, over = AsyncSemaphore("api", 9, store=store), list[Any](), threading.Event()
        call_all = store.call_all

        def slowly(calls: Any) -> Any:
            called.extend(calls)
            assert over.wait(SOON)
            return call_all(calls)

        monkeypatch.setattr(store, "call_all", slowly)

        async def main() -> None:
            is_busy = loop_calls_of(store).queue(Run(lambda: over.wait(SOON)))
            if begun:
                over.set()
                await is_busy
                over.clear()
            calls = [asyncio.create_task(api.acquire()) for _ in range(20)]
            await (until(lambda: called) if begun else asyncio.sleep(0))
            for call in calls:
                call.cancel()
            await asyncio.wait(calls)
            over.set()
            await api.available()  # comes after all releases

        asyncio.run(main())
        assert bool(called) is begun
        soon_nothing_is_left(store)

    @pytest.mark.parametrize("error", [RuntimeError("no thread"), MemoryError()])
    def test_a_release_that_could_not_be_queued(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, error: Exception
    ) -> None:
        """No thread can be started, say, or a signal handler raised."""
        api = AsyncSemaphore("api", 1, store=store)
        store.acquire([ONE], "other")

        def fail(*_: object) -> None:
            raise error

        async def main() -> BaseException | None:
            acquiring = asyncio.create_task(api.acquire())
            await until(lambda: store.snapshot("api").waiting)
            with monkeypatch.context() as patch:
                patch.setattr(LoopCalls, "_put", fail)
                acquiring.cancel()
                await asyncio.wait([acquiring])
            await until(lambda: not store.snapshot("api").waiting)
            return None if acquiring.cancelled() else acquiring.exception()

        found = asyncio.run(main())
        assert found is (None if isinstance(error, RuntimeError) else error)
        store.release("other", [ONE])
        soon_nothing_is_left(store)

    def test_a_release_that_is_wrong_is_told(
        self, store: MemoryStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        """No coroutine awaits it."""
        api = AsyncSemaphore("api", 1, store=store)
        store.acquire([ONE], "other")

        def wrong(*_: object) -> None:
            raise SemaphoreError("wrong")

        async def main() -> None:
            acquiring = asyncio.create_task(api.acquire())
            await until(lambda: store.snapshot("api").waiting)
            monkeypatch.setattr(store, "release", wrong)
            acquiring.cancel()
            await until(
                lambda: "was not released, its lease ends: SemaphoreError('wrong')" in caplog.text
            )

        asyncio.run(main())


def test_a_forked_child_releases_nothing_of_its_parent(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The coroutines of the parent are closed in the child, too, where nothing runs them.

    No thread of the parent runs when it forks: one that is missing in the child would hide what the child queues.
    """
    monkeypatch.setattr(loop_calls, "IDLE_S", 0.1)
    api = AsyncSemaphore("api", 1, url=valkey.url)

    async def body() -> None:
        async with api.permit():
            await asyncio.sleep(SOON)

    async def main() -> None:
        tasks = [asyncio.create_task(body()) for _ in range(2)]
        await until(lambda: api._seen().waiting == 1 and not loop_calls_of(api._store)._threads)
        seen = api._seen()

        def closed() -> bool:
            for each in tasks:
                each.get_coro().close()
            time.sleep(0.5)
            return True

        assert in_child(closed)
        again = api._seen()
        assert [each.holder for each in again.holders] == [each.holder for each in seen.holders]
        assert again.waiting == 1
        for each in tasks:
            each.cancel()
        await asyncio.wait(tasks)

    asyncio.run(main())
    soon_nothing_is_left(api._store)


def test_a_forked_child_has_no_permit_of_its_parent(valkey: ValkeyServer) -> None:
    api = AsyncSemaphore("api", 1, url=valkey.url)
    permit = asyncio.run(api.acquire())
    assert in_child(lambda: asyncio.run(api.release(permit)) is None)
    assert [each.holder for each in asyncio.run(api.holders())] == [permit.holder]
    asyncio.run(api.release(permit))
    soon_nothing_is_left(api._store)


def test_a_release_that_could_not_be_queued(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller gets the error, and the permit is not kept until its lease ends."""
    api = AsyncSemaphore("api", 1, store=store)

    def fail(*_: object) -> None:
        raise MemoryError

    permit = asyncio.run(api.acquire())
    releasing = api.release(permit)  # outside of a loop it queues nothing

    async def main() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(LoopCalls, "queue", fail)
            with pytest.raises(MemoryError):
                await releasing
            await until(lambda: not occupied(store))
            permit = await api.acquire()
            with pytest.raises(MemoryError):
                await api.release(permit)
        await until(lambda: not occupied(store))

    asyncio.run(main())
    soon_nothing_is_left(store)
