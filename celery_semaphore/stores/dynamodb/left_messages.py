"""Remember messages that could not be deleted, for a later attempt of this process."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..documents.documents import Key

MOST = 1000  # messages; if the table takes no deletions for long, the oldest stay in it


class LeftMessages:
    """The keys of messages that no document refers to any more. Threads share them."""

    def __init__(self) -> None:
        self._keys: deque[Key] = deque(maxlen=MOST)

    def note(self, keys: Iterable[Key]) -> None:
        self._keys.extend(keys)

    def taken(self, most: int) -> list[Key]:
        """Take up to so many: they are noted again if they cannot be deleted."""
        found: list[Key] = []
        while self._keys and len(found) < most:
            found.append(self._keys.popleft())
        return found
