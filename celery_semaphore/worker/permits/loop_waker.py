"""Alarm: makes a worker's event loop run now.

An acknowledgement from another thread is only queued for the loop, which may sleep for long: until it
wakes, the broker counts the message as held, and delivers no other in its place.
"""

from __future__ import annotations

import contextlib
import os

FULL = 1 << 16  # bytes that a pipe holds; should one hold more, the rest wakes the loop again


class LoopWaker:
    """A pipe that only the event loop reads: whoever else read it could swallow the wake-up.

    The pool's processes inherit it, to ring when an early ack is due.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """The end that the event loop watches."""
        return self._read

    def wake(self) -> None:
        """Wake the loop; from any thread, or process of the pool."""
        with contextlib.suppress(BlockingIOError):  # full: it wakes anyway
            os.write(self._write, b"!")

    def clear(self) -> None:
        """The loop runs."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, FULL)
