"""Find the resources that are in use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .connection import Link, plain
from .keys import Keys


class Index:
    """The names of all resources in use, in one sorted set: see _index.lua."""

    def __init__(self, link: Link, keys: Keys) -> None:
        self._link = link
        self._key = keys.common("index")

    def names(self, pattern: str = "*") -> Iterator[str]:
        """Yield the names that match the pattern; the server scans all of them."""
        cursor, seen = b"0", set[bytes]()
        while True:
            command = ("ZSCAN", self._key, cursor, "MATCH", pattern, "COUNT", 1000)
            cursor, found = self._link.ask(partial(plain, command=command))
            yield from (name.decode() for name in found[::2] if name not in seen)
            seen.update(found[::2])
            if cursor == b"0":
                return
