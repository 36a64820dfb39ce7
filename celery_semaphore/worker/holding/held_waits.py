"""Know which waits the held messages of one connection have, by nonce and by resource."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView

from ...core.permit import Claim
from ...core.session import HeldWait
from .held_message import HeldMessage


class HeldWaits:
    """Holds the messages of each wait. Changed by atomic operations, without a lock: the loop must not wait."""

    def __init__(self) -> None:
        self._by_nonce: dict[str, list[HeldMessage]] = {}
        self._count = Counter[str]()  # of messages, by resource

    def __len__(self) -> int:
        return len(self._by_nonce)

    def add(self, held: HeldMessage, wait: HeldWait) -> None:
        nonce = wait.ticket.nonce
        self._by_nonce[nonce] = [*self._by_nonce.get(nonce, ()), held]
        self._count.update(claim.resource for claim in wait.claims)

    def discard(self, held: HeldMessage) -> None:
        if held.wait is None:
            return
        nonce = held.wait.ticket.nonce
        before = self._by_nonce.pop(nonce, [])
        left = [each for each in before if each is not held]
        if left:
            self._by_nonce[nonce] = left
        if len(left) < len(before):
            self._count.subtract(claim.resource for claim in held.wait.claims)
            self._count += Counter()  # drops the resources with a count of 0

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

    def wants(self, claims: Iterable[Claim]) -> bool:
        """Return whether a message waits for one of these resources."""
        return any(self._count[claim.resource] for claim in claims)

    def waits(self) -> list[HeldWait]:
        """Return all waits."""
        return [each.wait for some in self._by_nonce.copy().values() for each in some if each.wait]
