"""LoopNotice: wake a coroutine that waits for its grant, from any thread."""

from __future__ import annotations

import asyncio
import weakref
from contextlib import suppress


class LoopNotice:
    """A notice of the running event loop, for one coroutine of it.

    The asker keeps it while the coroutine waits. So it must not keep the coroutine: once its loop is closed, only the
    garbage collector closes a coroutine, which leaves the line then.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = False
        self._woken: weakref.ref[asyncio.Future[None]] | None = None

    def set(self) -> None:
        """Wake the coroutine that waits, or the next time that it will."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._tell)

    async def wait(self, seconds: float) -> None:
        """Wait for so long at most, or until it is set; clear it."""
        if not self._told:
            woken = self._loop.create_future()
            self._woken = weakref.ref(woken)
            timer = self._loop.call_later(seconds, _wake, woken)  # the loop keeps the future
            try:
                await woken
            finally:
                timer.cancel()
                self._woken = None
        self._told = False

    def _tell(self) -> None:
        self._told = True
        if self._woken is not None and (woken := self._woken()) is not None:
            _wake(woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
