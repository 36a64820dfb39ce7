"""LoopWaker: wake a worker's event loop at once.

An acknowledgement from another thread is only queued for the loop, which may sleep for long. Until it wakes, the broker
counts the message as unacknowledged, and delivers no other instead.
"""

from __future__ import annotations

import contextlib
import os

FULL = 1 << 16  # bytes that a pipe holds; if one holds more, the rest wakes the loop again


class LoopWaker:
    """Wakes the loop by a pipe that only the loop reads: another reader could swallow the wake-up.

    The pool's processes inherit the pipe, to wake the loop when an early ack is due.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Return the end of the pipe that the event loop watches."""
        return self._read

    def wake(self) -> None:
        """Wake the loop; any thread or process of the pool may call this."""
        with contextlib.suppress(BlockingIOError):  # a full pipe wakes the loop, too
            os.write(self._write, b"!")

    def clear(self) -> None:
        """Empty the pipe, now that the loop runs."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._read, FULL)
