"""LoopNotice: wake a coroutine that waits for its grant, from any thread."""

from __future__ import annotations

import asyncio
from contextlib import suppress


class LoopNotice:
    """A notice of the running event loop, for one coroutine of it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._told = False
        self._woken: asyncio.Future[None] | None = None

    def set(self) -> None:
        """Wake the coroutine that waits, or the next time that it will."""
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._tell)

    async def wait(self, seconds: float) -> None:
        """Wait for so long at most, or until it is set; clear it."""
        if not self._told:
            self._woken = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._wake)
            try:
                await self._woken
            finally:
                timer.cancel()
                self._woken = None
        self._told = False

    def _tell(self) -> None:
        self._told = True
        self._wake()

    def _wake(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)
