"""Know which waits the held messages of one connection have, by nonce."""

from __future__ import annotations

from collections.abc import Iterable, KeysView

from ...core.session import HeldWait
from .held_message import HeldMessage


class HeldWaits:
    """Holds the messages of each wait. Changed by atomic operations, without a lock: the loop must not wait."""

    def __init__(self) -> None:
        self._by_nonce: dict[str, list[HeldMessage]] = {}

    def __len__(self) -> int:
        return len(self._by_nonce)

    def add(self, held: HeldMessage, wait: HeldWait) -> None:
        nonce = wait.ticket.nonce
        self._by_nonce[nonce] = [*self._by_nonce.get(nonce, ()), held]

    def discard(self, held: HeldMessage) -> None:
        if held.wait is None:
            return
        nonce = held.wait.ticket.nonce
        left = [each for each in self._by_nonce.pop(nonce, ()) if each is not held]
        if left:
            self._by_nonce[nonce] = left

    def clear(self) -> None:
        self._by_nonce = {}

    def nonces(self) -> KeysView[str]:
        """Return a view: `set & view` costs as much as the smaller one, `set.intersection(view)` as the view."""
        return self._by_nonce.keys()

    def messages(self, nonce: str) -> Iterable[HeldMessage]:
        """Return the messages of one wait: it has two if the broker delivered it again."""
        return self._by_nonce.get(nonce, ())

    def has(self, wait: HeldWait) -> bool:
        return any(each.wait is wait for each in self.messages(wait.ticket.nonce))

    def waits(self) -> list[HeldWait]:
        """Return all waits."""
        return [each.wait for some in self._by_nonce.copy().values() for each in some if each.wait]
