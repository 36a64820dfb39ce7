"""Know which processes use a store: each one that reaps leaves the number of the format that it writes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from secrets import token_hex

from ..core.formats import FORMAT

SEEN_FOR_S = 60.0  # a process counts for so long after it reaped, or for a lease if that is longer


class ThisProcess:
    """Names the process that calls; a forked child has a name of its own."""

    def __init__(self) -> None:
        self._nonce = token_hex(8)

    @property
    def name(self) -> str:
        return f"{FORMAT} {self._nonce}-{os.getpid()}"


def by_format(names: Iterable[str]) -> dict[int, int]:
    """Return the number of these processes by their format, the oldest format first."""
    return dict(sorted(Counter(int(name.split(" ", 1)[0]) for name in names).items()))
