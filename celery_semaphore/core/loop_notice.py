"""LoopNotice: wake a coroutine that waits for its grant, from any thread."""

from __future__ import annotations

import asyncio
import time
import weakref
from contextlib import suppress


class LoopNotice:
    """A notice of the running event loop, for one coroutine of it.

    The asker keeps it while the coroutine waits. So it must not keep the coroutine, nor the loop that does: once a loop
    is closed, or dropped without that, only the garbage collector closes a coroutine, which leaves the line then.
    """

    def __init__(self) -> None:
        self._loop = weakref.ref(asyncio.get_running_loop())
        self.unheard_since: float | None = None
        self._told = False
        self._woken: weakref.ref[asyncio.Future[None]] | None = None

    def set(self) -> None:
        """Wake the coroutine that waits, or the next time that it will."""
        if self.unheard_since is None:
            self.unheard_since = time.monotonic()
        if loop := self._loop():
            with suppress(RuntimeError):  # it is closed
                loop.call_soon_threadsafe(self._tell)

    async def wait(self, seconds: float) -> bool:
        """Wait for so long at most, or until it is set; clear it, and return whether it was set."""
        if not self._told:
            loop = asyncio.get_running_loop()
            woken = loop.create_future()
            self._woken = weakref.ref(woken)
            timer = loop.call_later(seconds, _wake, woken)  # the loop keeps the future
            try:
                await woken
            finally:
                timer.cancel()
                self._woken = None
        told, self._told = self._told, False
        return told

    def _tell(self) -> None:
        self.unheard_since = None
        self._told = True
        if self._woken is not None and (woken := self._woken()) is not None:
            _wake(woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
