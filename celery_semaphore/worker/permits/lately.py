"""Lately: remember the last names, in bounded memory."""

from __future__ import annotations

MOST = 1000  # names of one half; the older half goes as a whole


class Lately:
    """Knows the last names that were added, 1,000 at least.

    There is no lock: a signal handler may interrupt any step, and threads that add at once lose a few names at worst.
    """

    def __init__(self) -> None:
        self._newer: set[str] = set()
        self._older: set[str] = set()

    def add(self, name: str) -> None:
        """Remember this name."""
        self._newer.add(name)
        if len(self._newer) >= MOST:
            self._older, self._newer = self._newer, set()

    def __contains__(self, name: str) -> bool:
        return name in self._newer or name in self._older
