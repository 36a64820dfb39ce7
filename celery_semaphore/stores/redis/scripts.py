"""The Lua scripts: one file for each operation, behind the preludes that it needs."""

from __future__ import annotations

from hashlib import sha1
from importlib.resources import files

from .connection import Word, pack

PARTS = (
    "holders",
    "permits",
    "weights",
    "released",
    "waiters",
    "parked",
    "due",
    "tickets",
    "payloads",
    "meta",
)


class Script:
    """One operation, ready to be sent by its digest."""

    def __init__(self, name: str, *preludes: str) -> None:
        here = files(__package__)
        parts = [(here / f"{part}.lua").read_text("utf-8") for part in (*preludes, name)]
        self.source = "\n".join(parts)
        digest = sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        self._by_digest = pack(("EVALSHA", digest))
        self._by_source = pack(("EVAL", self.source))

    def command(self, resources: int, keys: bytes, words: list[Word], *, whole: bool) -> bytes:
        """The call; ``whole`` brings the source along, for a server that does not know it yet."""
        count = 3 + resources * len(PARTS)
        head = self._by_source if whole else self._by_digest
        start = b"*%d\r\n" % (3 + count + len(words))
        return b"".join((start, head, pack((count,)), keys, pack(words)))


_BASE = ("_memory", "_permits", "_line")
ACQUIRE = Script("acquire", *_BASE, "_asking")
ATTACH = Script("attach", *_BASE, "_hand_on")
OVERDUE = Script("overdue", "_memory")
REAP = Script("reap", *_BASE, "_hand_on")
RELEASE = Script("release", *_BASE, "_hand_on")
RENEW = Script("renew", *_BASE)
SET_LIMIT = Script("set_limit", "_memory")
SNAPSHOT = Script("snapshot", *_BASE)
