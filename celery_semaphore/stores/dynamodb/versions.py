"""Remember which versions of resources this process wrote last: a resource that still has one was not changed since."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ..documents.documents import Key

MOST = 4096  # resources; a process that uses more of them begins anew


class WrittenVersions:
    """The versions by their resources. Threads share it: one that finds a version too old only reads once more."""

    def __init__(self) -> None:
        self._of: dict[Key, int] = {}

    def of(self, keys: Collection[Key]) -> Mapping[Key, int]:
        """Return the versions of all these resources, or nothing if one of them is not known."""
        found = {key: version for key in keys if (version := self._of.get(key)) is not None}
        return found if len(found) == len({*keys}) else {}

    def note(self, written: Mapping[Key, int]) -> None:
        if len(self._of) + len(written) > MOST:
            self._of.clear()
        self._of |= written

    def forget(self, keys: Collection[Key]) -> None:
        """Forget resources that another process changed: the next attempt reads in two requests."""
        for key in keys:
            self._of.pop(key, None)
