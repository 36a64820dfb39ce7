"""BrokerReply: acknowledge or reject one message once, however many requests are made of it."""

from __future__ import annotations

from collections.abc import Callable

from ...core.once import Once


class BrokerReply:
    """Lets the first caller reply to the broker, and ignores the others.

    Permits and ends are noted by different threads, and a second reply would close the channel.
    """

    def __init__(self) -> None:
        self._open = Once()

    def give(self, send: Callable[[], None]) -> None:
        """Call ``send`` unless a reply was sent; after an error none counts as sent."""
        if not self._open.take():
            return
        try:
            send()
        except BaseException:
            self._open.restore()
            raise
