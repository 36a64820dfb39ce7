"""Find the resources that are in use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from .connection import Word, plain, run_id_of
from .keys import Keys
from .link import Link


class Index:
    """The names of all resources in use, in one sorted set: see _index.lua."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link
        self._key = keys.common("index")

    def names(self, pattern: str = "*") -> Iterator[str]:
        """Yield the names that match the pattern; the server scans all of them."""
        cursor, run, seen = b"0", "", set[bytes]()
        while True:
            command = ("ZSCAN", self._key, cursor, "MATCH", pattern, "COUNT", 1000)
            before, (run, (cursor, found)) = run, self._link.ask(partial(_scanned, command=command))
            yield from (name.decode() for name in found[::2] if name not in seen)
            seen.update(found[::2])
            if before not in {"", run}:
                cursor = b"0"  # it means nothing to another server: begin again
            elif cursor == b"0":
                return


def _scanned(connection: Any, command: Sequence[Word]) -> tuple[str, Any]:
    """Return the run of the server, and its answer."""
    return run_id_of(connection), plain(connection, command)
