"""LoopCalls: make the calls of all event loops of a process to one store, in threads of its own."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any

from ..errors import SemaphoreError, StoreUnavailable
from .acquisition import Run
from .asker import asker_of
from .at_exit import flush_at_exit
from .background_thread import BackgroundThread
from .held_permits import held_permits_in
from .outage import NOT_RELEASED, outage_of
from .store import CALLED, Acquire, HandedOn, Release, Store

IDLE_S = 10.0  # without a call, after which a thread ends
FLUSH_CHECK_S = 0.005  # between two looks, at the end of the process, whether all calls were made


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    what: Acquire | Release | Run
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]


class LoopCalls:
    """Queues the calls of coroutines; a thread makes all that are queued together, and wakes each loop once.

    A call that has begun always ends. If its coroutine was cancelled before, it is dropped; but a release never is.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = SimpleQueue[_Call]()
        # Reentrant: a signal handler may run callbacks of a loop.
        self._starting = threading.RLock()
        self._threads: list[_CallThread] = []
        self._left = set[_Call]()  # calls that are queued or under way

    async def make(self, what: Acquire | Release | Run) -> Any:
        """Return the answer; a release without one is repeated in the background, and that is its answer."""
        return await self.queue(what)

    def flush(self, until: float) -> None:
        """Wait for the calls that are queued or under way, until this monotonic time at the latest."""
        while self._left and self._threads and time.monotonic() < until:
            time.sleep(FLUSH_CHECK_S)

    def queue(self, what: Acquire | Release | Run) -> asyncio.Future[Any]:
        """Queue a call, and return the future of its answer."""
        loop = asyncio.get_running_loop()
        call = _Call(what, loop, loop.create_future())
        with self._starting:
            try:
                self._left.add(call)
                self._queue.put(call)
                self._start()
            except BaseException:  # a signal handler raised, or no thread may be started
                call.answer.cancel()
                self._left.discard(call)
                raise
        return call.answer

    def _start(self) -> None:
        """Start a thread if there is none, or if calls wait for each other and one more is allowed."""
        threads = len(self._threads)
        if not threads or threads < min(len(self._left), self._store.calls_at_once):
            self._threads.append(_CallThread(self))
        for thread in self._threads.copy():
            try:
                thread.start()  # also again, if it was interrupted
            except RuntimeError:
                self._threads.remove(thread)
                if not self._threads:
                    raise

    def taken(self, thread: _CallThread) -> list[_Call] | None:
        """Wait for calls, and return those to make together; None if none came for long, so that the thread ends."""
        try:
            some = [self._queue.get(timeout=IDLE_S)]
        except Empty:
            with self._starting:
                if not self._queue.empty():  # one was queued since
                    return []
                self._threads.remove(thread)
            return None
        if self._store.calls_at_once == 1:
            some += self._taken_now(CALLED - 1)
        return some

    def made(self, some: Sequence[_Call]) -> None:
        """Make these calls, and wake their loops.

        If the store does not answer one of them, that is the answer of all that are queued by then: else each would
        wait until the store has not answered all those before it.
        """
        left = _together(c for c in some if isinstance(c.what, Release) or not c.answer.cancelled())
        try:
            while left:
                calls = left.popleft()
                said = self._said(calls)
                self._answer(calls, said)
                if unavailable := [each for each in said if isinstance(each, StoreUnavailable)]:
                    rest = [call for calls in left for call in calls]
                    rest += self._taken_now(self._queue.qsize())
                    some = [*some, *rest]
                    self._answer(rest, unavailable[:1] * len(rest))
                    break
        except BaseException as error:  # noqa: BLE001 - else its coroutines would wait for ever
            _wake([(call, _Failed(error)) for call in some])
        finally:
            with self._starting:
                self._left.difference_update(some)

    def _taken_now(self, most: int) -> list[_Call]:
        some: list[_Call] = []
        with suppress(Empty):
            while len(some) < most:
                some.append(self._queue.get_nowait())
        return some

    def _said(self, calls: Sequence[_Call]) -> Sequence[Any]:
        """Return what the store says to each, which may be an error."""
        try:
            if isinstance(run := calls[0].what, Run):
                return [run.call()]
            return self._store.call_all([call.what for call in calls])  # type: ignore[misc]
        except BaseException as error:  # noqa: BLE001 - the caller gets it, and this thread goes on
            return [error] * len(calls)

    def _answer(self, calls: Sequence[_Call], said: Sequence[Any]) -> None:
        _wake([(call, self._read(call, each)) for call, each in zip(calls, said, strict=True)])

    def _read(self, call: _Call, said: object) -> object:
        if isinstance(call.what, Release):
            return self._released(call.what, said)
        return _Failed(said) if isinstance(said, BaseException) else said

    def _released(self, release: Release, said: object) -> object:
        """Tell the waits of this process what was handed on; repeat a release that the store did not answer.

        It is decided here, not in the loop, which may be closed, and the coroutine cancelled.
        """
        if isinstance(said, HandedOn):
            asker_of(self._store).tell(said.granted)
            return None
        if isinstance(said, SemaphoreError) and not isinstance(said, StoreUnavailable):
            return _Failed(said)
        held_permits_in(self._store).release_later(release.holder, release.claims)
        if isinstance(said, BaseException) and not isinstance(said, StoreUnavailable):
            return _Failed(said)
        outage_of(self._store).failed(NOT_RELEASED, release.holder, said)
        return None


class _CallThread:
    def __init__(self, calls: LoopCalls) -> None:
        self._calls = calls
        self._some: list[_Call] = []
        self._thread = BackgroundThread("celery-semaphore-calls", self._make, self._is_over)

    def start(self) -> None:
        self._thread.start()

    def _is_over(self) -> bool:
        some = self._calls.taken(self)
        self._some = some or []
        return some is None

    def _make(self) -> None:
        if some := self._some:
            self._some = []  # keep no loop alive while it waits for the next calls
            self._calls.made(some)


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


def _together(calls: Iterable[_Call]) -> deque[list[_Call]]:
    """Return what is called by itself, then all that the store makes in one round trip."""
    groups, some = deque[list[_Call]](), list[_Call]()
    for call in calls:
        if isinstance(call.what, Run):
            groups.append([call])
        else:
            some.append(call)
    if some:
        groups.append(some)
    return groups


def _wake(answers: Sequence[tuple[_Call, object]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for call, answer in answers:
        by_loop.setdefault(call.loop, []).append((call.answer, answer))
    for loop, some in by_loop.items():
        # The loop may be closed: its coroutines were, too, or their leases end.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_deliver, some)


def _deliver(some: Sequence[tuple[asyncio.Future[Any], object]]) -> None:
    for future, answer in some:
        if future.done():  # its coroutine was cancelled
            continue
        if not isinstance(answer, _Failed):
            future.set_result(answer)
        elif isinstance(answer.error, StopIteration):  # no future can raise it
            future.set_exception(RuntimeError(repr(answer.error)))
        else:
            future.set_exception(answer.error)


_by_store: dict[Store, LoopCalls] = {}
# A forked child has no thread of its parent's, and none of its loops runs.
os.register_at_fork(after_in_child=_by_store.clear)


def loop_calls_of(store: Store) -> LoopCalls:
    """Return the calls of this process to a store, made when they are first needed."""
    return _by_store.get(store) or _by_store.setdefault(store, LoopCalls(store))


@flush_at_exit
def _flush(until: float) -> None:
    for calls in list(_by_store.values()):
        calls.flush(until)
