"""Answer: what the broker is told of one message, once, however many requests are made of it."""

from __future__ import annotations

from collections.abc import Callable


class Answer:
    """Let one caller answer, and the others find that it is done.

    Noted permits and ends come from different threads, and two answers would close the channel. No lock: a signal
    handler must not find it taken.
    """

    def __init__(self) -> None:
        self._open = [True]

    def give(self, answer: Callable[[], None]) -> None:
        """Call this unless the message was answered; after an error it is still to be answered."""
        try:
            self._open.pop()
        except IndexError:
            return
        try:
            answer()
        except BaseException:
            self._open.append(True)
            raise
