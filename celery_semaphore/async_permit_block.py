"""AsyncPermitBlock: hold a permit for an ``async with`` block."""

from __future__ import annotations

import asyncio
import os
import sys
import weakref
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any

from .core.event_loop import check_loop, is_in_event_loop
from .core.held_permits import OnLost
from .core.permit import Permit
from .errors import PermitLost, SemaphoreError
from .loop_losses import LossCancellation
from .semaphore_checks import CANCEL
from .with_blocks import Place

if TYPE_CHECKING:
    from .async_semaphore import AsyncSemaphore


class AsyncPermitBlock:
    """Holds a permit for an ``async with`` block of its own: see ``AsyncSemaphore.permit``."""

    def __init__(self, semaphore: AsyncSemaphore, timeout: float) -> None:
        self._semaphore = semaphore
        self._timeout = timeout
        self._is_entered = False  # or is about to be: two tasks must not share it
        self._permit: Permit | None = None
        self._cancellation: LossCancellation | None = None
        # Weakly: the block must not keep a loop that was dropped, nor a task whose loop is closed.
        self._loop: Callable[[], asyncio.AbstractEventLoop | None] | None = None
        self._task: Callable[[], asyncio.Task[Any] | None] = _no_task
        self._process = os.getpid()
        self.place: Place | None = None  # where ``async with semaphore`` was entered

    async def __aenter__(self) -> Permit:
        if self._is_entered:
            msg = "this block is entered already: call permit() once for each"
            raise RuntimeError(msg)
        check_loop()
        self._process, self._loop = os.getpid(), weakref.ref(asyncio.get_running_loop())
        task = asyncio.current_task()
        self._task = _no_task if task is None else weakref.ref(task)
        semaphore = self._semaphore
        waiter = semaphore._waiter(self._timeout)  # noqa: SLF001 - its own, as those below
        try:
            self._is_entered = True
            tell_lost = self._tell_lost()
            self._permit = permit = await semaphore._acquire(waiter, tell_lost, self.is_gone)  # noqa: SLF001
            return permit  # noqa: TRY300 - inside, as a signal handler may raise before it
        except BaseException as error:
            self._permit, self._is_entered = None, False
            await semaphore._give_up(waiter, error)  # noqa: SLF001
            raise

    def _tell_lost(self) -> OnLost | None:
        cancels = self._semaphore._on_lost == CANCEL  # noqa: SLF001
        self._cancellation = LossCancellation() if cancels else None
        return self._cancellation or self._semaphore._callback()  # noqa: SLF001

    @property
    def is_held(self) -> bool:
        """Whether it is entered, and not left."""
        return self._permit is not None

    def is_gone(self) -> bool:
        """Return whether its event loop is closed or dropped, so that its body runs no more."""
        return self._loop is not None and ((loop := self._loop()) is None or loop.is_closed())

    def is_abandoned(self) -> bool:
        """Return whether it is entered, but the task that entered it has ended, or never will."""
        task = self._task()
        return self._permit is not None and (task is None or task.done() or self.is_gone())

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        permit = self._permit
        if permit is None:
            msg = "this block is not entered"
            raise RuntimeError(msg)
        try:
            self._permit, self._is_entered = None, False  # before any other task may leave it
            await self._left(permit, error)
        except (SemaphoreError, asyncio.CancelledError):
            raise
        except BaseException:  # a signal handler raised, perhaps before the release was queued
            if self._permit is permit:
                self._permit, self._is_entered = None, False
            self._semaphore._release_later(permit)  # noqa: SLF001
            raise

    def release_later(self) -> None:
        """Leave the block, which nothing else has begun to leave, and release in the background."""
        permit, self._permit, self._is_entered = self._permit, None, False
        if permit is not None:
            self._semaphore._release_later(permit)  # noqa: SLF001

    async def _left(self, permit: Permit, error: BaseException | None) -> None:
        cancellation = self._cancellation
        is_own = cancellation is not None and cancellation.leave()
        if is_closed() or not is_in_event_loop():
            # The coroutine can await nothing. A forked child leaves the permit to its parent.
            if self._process == os.getpid():
                self._semaphore._release_later(permit, was_held=True)  # noqa: SLF001
            return
        try:
            await self._semaphore.release(permit)
        except asyncio.CancelledError as late:  # the body had ended when it was cancelled
            if cancellation is None or not (is_own and cancellation.is_alone):
                raise
            error = late
        is_cancelled = is_own and isinstance(error, asyncio.CancelledError)
        is_unheard = error is None and cancellation is not None and cancellation.is_unheard
        if is_cancelled or is_unheard:
            msg = f"{permit.holder}: the lease ended, another holder may have the permit now"
            raise PermitLost(msg) from error


def is_closed() -> bool:
    """Return whether the coroutine here is closed, also in a ``finally`` where an exit stack is closed by hand."""
    return isinstance(sys.exception(), GeneratorExit)


def _no_task() -> None:
    """Return what a weak reference to a task that is collected returns."""
