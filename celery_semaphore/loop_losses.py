"""Do in an event loop what is to be done about a lost permit."""

from __future__ import annotations

import asyncio
import inspect
import logging
from contextlib import suppress

from .core.held_permits import OnLost
from .core.permit import Permit

logger = logging.getLogger(__name__)

_running = set[asyncio.Task[None]]()  # the loop itself keeps no task alive


class LossCallback:
    """Calls a function in the loop that acquired the permit; a coroutine function becomes a task of it."""

    def __init__(self, on_lost: OnLost) -> None:
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()

    def __call__(self, permit: Permit) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._begin, permit)

    def _begin(self, permit: Permit) -> None:
        task = self._loop.create_task(self._called(permit))
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
        self._loop = asyncio.get_running_loop()
        task = asyncio.current_task()
        if task is None:
            msg = 'on_lost="cancel" cancels a task, and this is none'
            raise RuntimeError(msg)
        self._task = task
        self._before = task.cancelling()
        self._cancelled = self._left = False

    def __call__(self, _: Permit) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._cancel)

    def leave(self) -> bool:
        """Cancel no more; return whether a cancellation that is on its way, or arrived, is this one alone."""
        self._left = True
        return self._cancelled and self._task.uncancel() <= self._before

    @property
    def is_alone(self) -> bool:
        """Whether no cancellation came from outside since the block was entered."""
        return self._task.cancelling() <= self._before

    def _cancel(self) -> None:
        if not self._left:
            self._cancelled = self._task.cancel()
