"""Answer: acknowledge or reject one message once, however many requests are made of it."""

from __future__ import annotations

from collections.abc import Callable


class Answer:
    """Lets the first caller answer the broker, and ignores the others.

    Permits and ends are noted by different threads, and a second answer would close the channel. There is no lock,
    because a signal handler might find it taken by the code that it interrupted.
    """

    def __init__(self) -> None:
        self._open = [True]

    def give(self, answer: Callable[[], None]) -> None:
        """Call ``answer`` unless the message was answered; after an error it counts as unanswered."""
        try:
            self._open.pop()
        except IndexError:
            return
        try:
            answer()
        except BaseException:
            self._open.append(True)
            raise
