"""LoopCalls: make the calls of all event loops of a process to one store, in threads of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Sequence
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
from .store import CALLED, Acquire, HandedOn, Release, Store

logger = logging.getLogger(__name__)

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
        self._starting = (
            threading.RLock()
        )  # reentrant: a signal handler may run callbacks of a loop
        self._threads = self._free = 0  # threads, and those of them that wait for a call
        self._left = 0  # calls that are queued or under way

    async def make(self, what: Acquire | Release | Run) -> Any:
        """Return the answer; a release without one is repeated in the background, and that is its answer."""
        return await self._queued(what)

    def flush(self, until: float) -> None:
        """Wait for the calls that are queued or under way, until this monotonic time at the latest."""
        while self._left and self._threads and time.monotonic() < until:
            time.sleep(FLUSH_CHECK_S)

    def _queued(self, what: Acquire | Release | Run) -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        call = _Call(what, loop, loop.create_future())
        with self._starting:
            self._left += 1
            self._queue.put(call)
            try:
                self._start()
            except RuntimeError:  # this process ends, or may start no thread
                call.answer.cancel()
                raise
        return call.answer

    def _start(self) -> None:
        """Start a thread if there is none, or if calls wait for each other and one more is allowed."""
        busy = self._queue.qsize() > self._free and self._threads < self._store.calls_at_once
        if self._threads == 0 or busy:
            self._threads += 1
            self._free += 1
            try:
                _CallThread(self).start()
            except RuntimeError:
                self._threads -= 1
                self._free -= 1
                if self._threads == 0:
                    raise

    def taken(self) -> list[_Call] | None:
        """Wait for calls, and return those to make together; None if none came for long, so that the thread ends."""
        try:
            some = [self._queue.get(timeout=IDLE_S)]
        except Empty:
            with self._starting:
                if not self._queue.empty():  # one was queued since
                    return []
                self._threads -= 1
                self._free -= 1
            return None
        with self._starting:
            self._free -= 1
        with suppress(Empty):
            while self._store.calls_at_once == 1 and len(some) < CALLED:
                some.append(self._queue.get_nowait())
        return some

    def made(self, some: Sequence[_Call]) -> None:
        """Make these calls, and wake their loops."""
        calls = [c for c in some if isinstance(c.what, Release) or not c.answer.cancelled()]
        try:
            _wake(self._answers(calls))
        except BaseException as error:  # noqa: BLE001 - else its coroutines would wait for ever
            _wake([(call, _Failed(error)) for call in calls])
        finally:
            with self._starting:
                self._left -= len(some)
                self._free += 1

    def _answers(self, calls: Sequence[_Call]) -> list[tuple[_Call, object]]:
        answers = [(call, self._run(call.what)) for call in calls if isinstance(call.what, Run)]
        return answers + self._called([c for c in calls if not isinstance(c.what, Run)])

    def _run(self, run: Run) -> object:
        try:
            return run.call()
        except BaseException as error:  # noqa: BLE001 - the caller gets it, and this thread goes on
            return _Failed(error)

    def _called(self, calls: list[_Call]) -> list[tuple[_Call, object]]:
        if not calls:
            return []
        try:
            said: list[Any] = self._store.call_all([call.what for call in calls])  # type: ignore[misc]
        except BaseException as error:  # noqa: BLE001 - as above
            said = [error] * len(calls)
        return [(call, self._read(call, each)) for call, each in zip(calls, said, strict=True)]

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
        logger.warning("%s is not released yet, retrying for one lease: %s", release.holder, said)
        return None


class _CallThread:
    def __init__(self, calls: LoopCalls) -> None:
        self._calls = calls
        self._some: list[_Call] = []
        self._thread = BackgroundThread("celery-semaphore-calls", self._make, self._is_over)

    def start(self) -> None:
        self._thread.start()

    def _is_over(self) -> bool:
        some = self._calls.taken()
        self._some = some or []
        return some is None

    def _make(self) -> None:
        if some := self._some:
            self._some = []  # keep no loop alive while it waits for the next calls
            self._calls.made(some)


@dataclass(frozen=True, slots=True)
class _Failed:
    error: BaseException


def _wake(answers: Sequence[tuple[_Call, object]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for call, answer in answers:
        by_loop.setdefault(call.loop, []).append((call.answer, answer))
    for loop, some in by_loop.items():
        with suppress(
            RuntimeError
        ):  # the loop is closed: its coroutines were, too, or their leases end
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
