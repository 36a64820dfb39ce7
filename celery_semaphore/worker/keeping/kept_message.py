"""KeptMessage: one message that is kept for a refused task; and how some of many are found: by wait, and by revoke."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, KeysView
from dataclasses import dataclass
from typing import Any

from celery.worker import state

from ...core.session import HeldWait
from ...core.ticket import Ticket
from ...task.protocols import KeptRequest

logger = logging.getLogger(__name__)

REVOKED_S = 0.5  # between two checks


class CannotKeep(Exception):
    """The message cannot be kept after all: it is published."""


@dataclass(slots=True, eq=False)
class KeptMessage:
    """One kept message: its last request, and what its next request needs. Times are monotonic."""

    request: KeptRequest
    ticket: Ticket | None
    due: float  # when to run it again, unless it is granted before
    keep_until: float  # when the broker must have it back
    expected: float  # when its turn was expected at its refusal
    wait: HeldWait | None = None  # the wait its session asks for; None: the store grants it nothing
    raised: bool = False  # whether it raised the prefetch

    @property
    def acts_at(self) -> float:
        return min(self.due, self.keep_until)

    @property
    def rank(self) -> tuple[bool, Any]:
        """The sort key that puts the first in line first; messages without a ticket are in no line and come last."""
        return (True, self.due) if self.ticket is None else (False, self.ticket.rank)


class KeptWaits:
    """Keeps the messages of each wait. Changed by atomic operations, without a lock: the loop must not wait."""

    def __init__(self) -> None:
        self._by_nonce: dict[str, list[KeptMessage]] = {}

    def __len__(self) -> int:
        return len(self._by_nonce)

    def add(self, kept: KeptMessage, wait: HeldWait) -> None:
        nonce = wait.ticket.nonce
        self._by_nonce[nonce] = [*self._by_nonce.get(nonce, ()), kept]

    def discard(self, kept: KeptMessage) -> None:
        if kept.wait is None:
            return
        nonce = kept.wait.ticket.nonce
        left = [each for each in self._by_nonce.pop(nonce, ()) if each is not kept]
        if left:
            self._by_nonce[nonce] = left

    def clear(self) -> None:
        self._by_nonce = {}

    def nonces(self) -> KeysView[str]:
        """Return a view: `set & view` costs as much as the smaller one, `set.intersection(view)` as the view."""
        return self._by_nonce.keys()

    def messages(self, nonce: str) -> Iterable[KeptMessage]:
        """Return the messages of one wait: it has two if the broker delivered it again."""
        return self._by_nonce.get(nonce, ())

    def has(self, wait: HeldWait) -> bool:
        return any(each.wait is wait for each in self.messages(wait.ticket.nonce))

    def waits(self) -> list[HeldWait]:
        """Return all waits."""
        return [each.wait for some in self._by_nonce.copy().values() for each in some if each.wait]


class Revoked:
    """Finds them now and then, as each kept message must be looked at."""

    def __init__(self) -> None:
        self.unchecked: list[KeptMessage] = []  # of the check that has begun
        self._checked_at = 0.0

    def among(self, messages: Collection[KeptMessage], most: int) -> Iterator[KeptMessage]:
        """Yield the messages of revoked tasks, ``most`` of them; Celery then tells its backend and its signals."""
        now = time.monotonic()
        if not self.unchecked:
            if not (state.revoked or state.revoked_stamps) or now - self._checked_at < REVOKED_S:
                return
            self._checked_at = now
            self.unchecked = list(messages)
        while self.unchecked and most:
            kept = self.unchecked.pop()
            if kept in messages and _is_revoked(kept):
                most -= 1
                yield kept


def _is_revoked(kept: KeptMessage) -> bool:
    request = kept.request
    stamped = state.revoked_stamps and request.stamped_headers
    try:
        return bool((request.id in state.revoked or stamped) and request.revoked())
    except Exception:
        logger.exception("task %s was revoked, but could not be ended", request.id)
        return False
