"""Do in an event loop what is to be done about a lost permit."""

from __future__ import annotations

import asyncio
import inspect
import logging
import weakref
from contextlib import suppress
from typing import Any

from .core.held_permits import OnLost
from .core.permit import Permit

logger = logging.getLogger(__name__)

_running = set[asyncio.Task[None]]()  # the loop itself keeps no task alive


class LossCallback:
    """Calls a function in the loop that acquired the permit; a coroutine function becomes a task of it."""

    def __init__(self, on_lost: OnLost) -> None:
        self._on_lost = on_lost
        self._loop = weakref.ref(asyncio.get_running_loop())  # it may be dropped without a close

    def __call__(self, permit: Permit) -> None:
        if loop := self._loop():
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self._begin, permit)

    def _begin(self, permit: Permit) -> None:
        task = asyncio.get_running_loop().create_task(self._called(permit))
        _running.add(task)
        task.add_done_callback(_running.discard)

    async def _called(self, permit: Permit) -> None:
        try:
            answer = self._on_lost(permit)
            if inspect.isawaitable(answer):
                await answer
        except Exception:
            logger.exception("on_lost failed for %s", permit.holder)


class LossCancellation:
    """Cancels the task that entered a block; on the way out the block takes that cancellation back.

    As ``asyncio.timeout`` does: a cancellation that came from outside meanwhile stays one.
    """

    def __init__(self) -> None:
        self._loop = weakref.ref(asyncio.get_running_loop())  # it may be dropped without a close
        task = asyncio.current_task()
        if task is None:
            msg = 'on_lost="cancel" cancels a task, and this is none'
            raise RuntimeError(msg)
        # Weakly: once its loop is closed, only the garbage collector ends it.
        self._task = weakref.ref(task)
        self._before = task.cancelling()
        self._lost = self._cancelled = self._left = False

    def __call__(self, permit: Permit) -> None:
        if loop := self._loop():
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self._cancel, permit)

    def leave(self) -> bool:
        """Cancel no more; return whether a cancellation that is on its way, or arrived, is this one alone."""
        self._left = True
        task = self._own_task()
        return task is not None and self._cancelled and task.uncancel() <= self._before

    @property
    def is_alone(self) -> bool:
        """Whether no cancellation came from outside since the block was entered."""
        task = self._own_task()
        return task is not None and task.cancelling() <= self._before

    @property
    def is_unheard(self) -> bool:
        """Whether the permit was lost, but the task that leaves the block was not cancelled."""
        return self._lost and not (self._cancelled and self._own_task() is not None)

    def _own_task(self) -> asyncio.Task[Any] | None:
        """Return the task that entered the block, if it is the one that runs."""
        try:
            task = asyncio.current_task()
        except RuntimeError:  # no loop runs: the body is closed
            return None
        return task if task is self._task() else None

    def _cancel(self, permit: Permit) -> None:
        if self._left or self._lost:  # it may be told twice
            return
        self._lost = True
        task = self._task()
        self._cancelled = task is not None and task.cancel()
        if not self._cancelled:
            logger.error(
                "%s: its body is not cancelled, as the task that entered the block has ended",
                permit.holder,
            )
