"""LoopCalls: make the calls of all event loops of a process to one store, in threads of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty
from typing import Any

from ..errors import ResourceBusy, SemaphoreError, StoreUnavailable
from .acquisition import Run
from .asker import asker_of
from .at_exit import flush_at_exit
from .background_thread import BackgroundThread
from .claim import Claim
from .held_permits import held_permits_in
from .outage import NOT_RELEASED, outage_of
from .queued_calls import QueuedCall, QueuedCalls, Resources
from .store import Acquire, HandedOn, Release, Store
from .ticket import Ticket

logger = logging.getLogger(__name__)

IDLE_S = 10.0  # without a call, after which a thread ends
FLUSH_CHECK_S = 0.005  # between two looks, at the end of the process, whether all calls were made


class LoopCalls:
    """Queues the calls of coroutines; a thread makes all that are queued together, and wakes each loop once.

    A call that has begun always ends. If its coroutine was cancelled before, it is dropped; but a release never is, and
    comes before all others.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = QueuedCalls(lambda: store.calls_at_once)
        # Reentrant: a signal handler may run callbacks of a loop.
        self._starting = threading.RLock()
        self._threads: list[_CallThread] = []
        self._left = set[QueuedCall]()  # calls that are queued or under way

    async def make(
        self,
        what: Acquire | Release | Run,
        *,
        urgent: bool = False,
        dropped: Callable[[], None] = lambda: None,
    ) -> Any:
        """Return the answer; a release without one is repeated in the background, and that is its answer.

        ``dropped`` is called if the coroutine is cancelled so early that the call is surely never made.
        """
        answer = asyncio.get_running_loop().create_future()
        call = QueuedCall(what, answer, urgent=urgent)
        self._put(call)
        try:
            return await answer
        except asyncio.CancelledError:
            if call.is_dropped():
                dropped()
            raise

    def flush(self, until: float) -> None:
        """Wait for the calls that are queued or under way, until this monotonic time at the latest."""
        while self._left and self._threads and time.monotonic() < until:
            time.sleep(FLUSH_CHECK_S)

    def queue(self, what: Acquire | Release | Run) -> asyncio.Future[Any]:
        """Queue a call, and return the future of its answer."""
        answer = asyncio.get_running_loop().create_future()
        self._put(QueuedCall(what, answer))
        return answer

    def release_soon(self, name: str | Ticket, claims: Sequence[Claim]) -> None:
        """Release for a coroutine that gave up, before all acquires that are queued."""
        try:
            self._put(QueuedCall(Release(name, claims), None))
        except BaseException as error:  # perhaps it was not queued
            held_permits_in(self._store).release_later(name, claims)
            if not isinstance(error, RuntimeError):  # that is: no thread may be started
                raise

    def _put(self, call: QueuedCall) -> None:
        try:
            with self._starting:
                self._left.add(call)
                self._queue.put(call)
                threads = self._enough_threads()
            self._start(threads)
        except BaseException:  # a signal handler raised, or no thread may be started
            if call.answer is not None:
                call.answer.cancel()
            with self._starting:
                self._left.discard(call)
            raise

    def _enough_threads(self) -> list[_CallThread]:
        """Return all threads: a new one, too, if there is none, or if calls wait for each other and it is allowed."""
        threads = len(self._threads)
        if not threads or threads < min(len(self._left), self._store.calls_at_once):
            self._threads.append(_CallThread(self))
        return self._threads.copy()

    def _start(self, threads: Iterable[_CallThread]) -> None:
        """Start what is not started, without the lock: see ``BackgroundThread.start``."""
        for thread in threads:
            try:
                thread.start()  # also again, if it was interrupted
            except RuntimeError as error:
                with self._starting:
                    if thread in self._threads:
                        self._threads.remove(thread)
                    if self._threads:
                        continue
                # Without the lock: the collector may put a call in where another thread takes.
                left = self._queue.take_all()  # other callers trusted this one to start it
                with self._starting:
                    self._left.difference_update(left)
                self._answer(left, [error] * len(left))
                raise

    def taken(self, thread: _CallThread) -> list[QueuedCall] | None:
        """Wait for calls, and return those to make together; None if none came for long, so that the thread ends."""
        try:
            return self._queue.take(IDLE_S)
        except Empty:
            with self._starting:
                if self._queue:  # one was queued since
                    return []
                if thread in self._threads:  # else it had begun, though its start raised an error
                    self._threads.remove(thread)
            return None

    def made(self, some: Sequence[QueuedCall]) -> None:
        """Make these calls, and wake their loops.

        If the store does not answer one of them, that is the answer of all that are queued by then: else each would
        wait until the store has not answered all those before it. If a resource is busy, it is that of its calls alone.
        """
        taken = some
        is_busy: bool | None = None
        try:
            left = _together(call for call in some if call.begin())
            while left:
                calls = left.popleft()
                said = self._said(calls)
                self._answer(calls, said)
                is_busy = bool(is_busy)
                if unavailable := [each for each in said if isinstance(each, StoreUnavailable)]:
                    is_busy = isinstance(unavailable[0], ResourceBusy)
                    resources = calls[0].resources if is_busy else None
                    rest, left = _parted(left, resources)
                    rest += self._queue.take_all(resources)
                    some = [*some, *rest]
                    self._answer(rest, unavailable[:1] * len(rest))
        except BaseException as error:  # noqa: BLE001 - else its coroutines would wait for ever
            self._answer(some, [error] * len(some))
        finally:
            self._queue.are_made(taken, busy=is_busy)
            with self._starting:
                self._left.difference_update(some)

    def _said(self, calls: Sequence[QueuedCall]) -> Sequence[Any]:
        """Return what the store says to each, which may be an error."""
        try:
            if isinstance(run := calls[0].what, Run):
                return [run.call()]
            return self._store.call_all([call.what for call in calls])  # type: ignore[misc]
        except BaseException as error:  # noqa: BLE001 - the caller gets it, and this thread goes on
            return [error] * len(calls)

    def _answer(self, calls: Sequence[QueuedCall], said: Sequence[Any]) -> None:
        _wake([(call, self._read(call, each)) for call, each in zip(calls, said, strict=True)])

    def _read(self, call: QueuedCall, said: object) -> object:
        if isinstance(call.what, Release):
            return self._released(call.what, said, is_awaited=call.answer is not None)
        return _Failed(said) if isinstance(said, BaseException) else said

    def _released(self, release: Release, said: object, *, is_awaited: bool) -> object:
        """Tell the waits of this process what was handed on; repeat a release that the store did not answer.

        It is decided here, not in the loop, which may be closed, and the coroutine cancelled.
        """
        if isinstance(said, HandedOn):
            asker_of(self._store).tell(said.granted)
            return None
        if isinstance(said, SemaphoreError) and not isinstance(said, StoreUnavailable):
            if not is_awaited:
                logger.warning("%s was not released, its lease ends: %r", release.holder, said)
            return _Failed(said)
        held_permits_in(self._store).release_later(release.holder, release.claims)
        if isinstance(said, BaseException) and not isinstance(said, StoreUnavailable):
            return _Failed(said)
        outage_of(self._store).failed(NOT_RELEASED, release.holder, said)
        return None


class _CallThread:
    def __init__(self, calls: LoopCalls) -> None:
        self._calls = calls
        self._some: list[QueuedCall] = []
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


def _together(calls: Iterable[QueuedCall]) -> deque[list[QueuedCall]]:
    """Return what is called by itself, then all that the store makes in one round trip."""
    groups, some = deque[list[QueuedCall]](), list[QueuedCall]()
    for call in calls:
        if isinstance(call.what, Run):
            groups.append([call])
        else:
            some.append(call)
    if some:
        groups.append(some)
    return groups


def _parted(
    groups: Iterable[list[QueuedCall]], resources: Resources | None
) -> tuple[list[QueuedCall], deque[list[QueuedCall]]]:
    """Return the calls of these resources, or all, and the groups without them."""
    rest, left = list[QueuedCall](), deque[list[QueuedCall]]()
    for calls in groups:
        rest += (of := [each for each in calls if resources in (None, each.resources)])
        if others := [each for each in calls if each not in of]:
            left.append(others)
    return rest, left


def _wake(answers: Sequence[tuple[QueuedCall, object]]) -> None:
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], object]]] = {}
    for call, answer in answers:
        if call.answer is not None:
            by_loop.setdefault(call.answer.get_loop(), []).append((call.answer, answer))
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
            future.set_exception(_own(answer.error))


def _own(error: BaseException) -> BaseException:
    """Return a copy of an error of ours: several calls have it, and what one of them was at concerns no other."""
    if not isinstance(error, SemaphoreError):
        return error
    try:
        own = type(error).__new__(type(error), *error.args)
    except Exception:  # noqa: BLE001 - of the class of another author's store; else its call would wait for ever
        return error
    vars(own).update(vars(error))
    if notes := getattr(error, "__notes__", None):
        own.__notes__ = [*notes]
    own.__cause__, own.__suppress_context__ = error.__cause__, error.__suppress_context__
    return own.with_traceback(error.__traceback__)


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
