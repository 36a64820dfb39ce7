"""BrokerReply: acknowledge or reject one message once, however many requests are made of it."""

from __future__ import annotations

from collections.abc import Callable


class BrokerReply:
    """Lets the first caller reply to the broker, and ignores the others.

    Permits and ends are noted by different threads, and a second reply would close the channel. There is no lock,
    because a signal handler might find it taken by the code that it interrupted.
    """

    def __init__(self) -> None:
        self._open = [True]

    def give(self, send: Callable[[], None]) -> None:
        """Call ``send`` unless a reply was sent; after an error none counts as sent."""
        try:
            self._open.pop()
        except IndexError:
            return
        try:
            send()
        except BaseException:
            self._open.append(True)
            raise
