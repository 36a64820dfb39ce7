"""Ticket: name one wait, across all its deliveries, with its position in a line."""

from __future__ import annotations

from dataclasses import dataclass
from re import compile as pattern
from typing import Self

from .names import LONGEST_NAME, size_of

HIGHEST_PRIORITY = 255  # what a promoted ticket has
# Of calls, and of messages that were sent without a priority, whichever broker brings them. Below it is room for the 9
# priorities by which Redis makes a message less urgent.
DEFAULT_PRIORITY = 9
_TEXT = pattern(r"(?s)([0-9]{3})\.([0-9]{16})\.(.+)")


@dataclass(frozen=True, slots=True)
class Ticket:
    """The identity of a wait, and its position in a line.

    Stores and message headers keep it as ``text``; everything else passes the value.
    """

    nonce: str  # never changes: the holder that was refused first
    priority: int  # higher goes first; an operator may raise it
    place: int  # the store's time when the wait began, in microseconds: earlier goes first

    @classmethod
    def parse(cls, text: str | None) -> Self | None:
        """Parse the text of a ticket; return None for a text that no store has written."""
        match = _TEXT.fullmatch(text or "")
        if not match or int(match[1]) > HIGHEST_PRIORITY or size_of(match[3]) > LONGEST_NAME:
            return None
        return cls(match[3], HIGHEST_PRIORITY - int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        return f"{HIGHEST_PRIORITY - self.priority:03}.{self.place:016}.{self.nonce}"

    @property
    def rank(self) -> tuple[int, int, str]:
        """The sort key of a line; the nonce orders two waits that began in the same microsecond."""
        return -self.priority, self.place, self.nonce

    @property
    def since(self) -> float:
        """When the wait began, by the store's clock in seconds."""
        return self.place / 1_000_000
