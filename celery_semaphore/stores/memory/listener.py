"""Hear of a permit that was handed to a caller, within this process."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event


class MemoryListener:
    """Remembers that it was called, so that nothing is missed between two waits."""

    def __init__(self, nonce: str, closed: Callable[[MemoryListener], None]) -> None:
        self.nonce = nonce
        self._closed = closed
        self._called = Event()

    def call(self) -> None:
        self._called.set()

    def wait(self, timeout: float) -> None:
        self._called.wait(timeout)
        self._called.clear()  # whoever waited asks now, and so learns of a call in this very moment

    def close(self) -> None:
        self._closed(self)
