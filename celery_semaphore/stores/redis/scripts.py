"""Put the Lua scripts together: one file for each operation, after the parts that it needs."""

from __future__ import annotations

from hashlib import sha1
from importlib.resources import files

from ...core.formats import FORMAT
from ...core.session import GRANT_S
from ...core.store import BROKER_FOR_S, CONSUMED_FOR_S
from ..encoding import KEPT_ROOM, KEPT_ROOMS, microseconds
from ..processes import SEEN_FOR_S
from .connection import pack

PARTS = (
    "holders",
    "ledger",
    "weights",
    "released",
    "transit",
    "line",
    "due",
    "tickets",
    "payloads",
    "outbox",
    "aside",
)


class Script:
    """One operation, ready to be sent by its digest.

    Its parts run one after the other, and an early part may return the answer. Each call creates the functions
    anew, so functions that only later parts need come after it.
    """

    def __init__(self, *parts: str) -> None:
        here = files(__package__) / "lua"
        self.parts = parts
        texts = [(here / f"{part}.lua").read_text("utf-8") for part in parts]
        constants = (
            "local FORMAT, GRANT_S, SEEN_FOR_S, CONSUMED_FOR_S, BROKER_FOR_S, KEPT_ROOM,"
            " KEPT_ROOMS ="
            f' "{FORMAT}", {GRANT_S}, {SEEN_FOR_S}, {CONSUMED_FOR_S}, {BROKER_FOR_S:.0f},'
            f" {microseconds(KEPT_ROOM)}, {KEPT_ROOMS}"
        )
        self.source = "\n".join([constants, *texts])
        digest = sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        self._by_digest = pack(("EVALSHA", digest))
        self._by_source = pack(("EVAL", self.source))

    def start(self, keys: int, words: int, *, whole: bool) -> bytes:
        """Return the beginning of a call; ``whole`` sends the source, for a server that does not know it yet."""
        head = self._by_source if whole else self._by_digest
        return b"*%d\r\n%b%b" % (3 + keys + words, head, pack((keys,)))


BEGIN = ("_call", "_prelude", "_index")
WAITS = ("_records", "_holders", "_sessions", "_waits")
LINE = (*WAITS, "_kept_room", "_line")
HAND_ON = ("_limits", "_permits", "_kept_room", "_line", "_expiry", "_hand_on")

ACQUIRE = Script(
    *(*BEGIN, "_limits", "_permits", "acquire"),
    *(*LINE, "_expiry", "_holding", "_messages", "_own_wait", "acquire_slow_path"),
)
RELEASE = Script(*BEGIN, "_records", "_ran", "release", *WAITS[1:], *HAND_ON, "release_slow_path")
SHORT_ACQUIRE = Script("_short", "short_acquire")
SHORT_RELEASE = Script("_short", "short_release")
RENEW = Script(*BEGIN, "_limits", "_permits", *WAITS, "_holding", "renew")
RENEW_MANY = Script(*BEGIN, "renew_many")
ATTACH = Script(*BEGIN, *WAITS, *HAND_ON, "_holding", "attach")
END = Script(*BEGIN, *WAITS, *HAND_ON, "end")
PROMOTE = Script(*BEGIN, *WAITS, *HAND_ON, "promote")
REAP = Script(*BEGIN, *WAITS, *HAND_ON, "_decisions", "reap")
ASK = Script(*BEGIN, "_limits", "_permits", *LINE, "ask")
NAME = Script(*BEGIN, "_limits", "_permits", *LINE, "name")
SLEEP = Script(*BEGIN, "_sessions", "sleep")
TAKE = Script(*BEGIN, *WAITS, "take")
SENT = Script(*BEGIN, *WAITS, "sent")
FIND = Script(*BEGIN, "find")
FIND_WAITS = Script(*BEGIN, "find_waits")
WHERE = Script(*BEGIN, "_limits", "_permits", *LINE, "where")
SNAPSHOT = Script(*BEGIN, "_limits", "_permits", *WAITS, "_kept_room", "snapshot")
TOTALS = Script("_call", "_look", "_limits", "totals")
OVERDUE = Script(*BEGIN, "overdue")
PROCESSES = Script(*BEGIN, "processes")
CONSUME = Script(*BEGIN, "consume")
UNCONSUMED = Script(*BEGIN, "unconsumed")
BROKERS = Script(*BEGIN, "brokers")
DECLARE = Script(*BEGIN, "_limits", "_permits", "declare")
SET_LIMIT = Script(*BEGIN, "_decisions", "set_limit")
PAUSE = Script(*BEGIN, "_decisions", "pause")
RESUME = Script(*BEGIN, "_decisions", "resume")
SET_LEASE = Script(*BEGIN, "set_lease")
DECISIONS = Script("_call", "decisions")
