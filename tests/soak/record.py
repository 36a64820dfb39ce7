"""The broker's own record: what the append-only file of Valkey says of each message.

kombu pops a message from its list, and only then keeps it as unacknowledged. When the server stops in between,
the message is in neither: plain Celery loses its tasks so as well. The file holds each push, pop, keep and removal
in the order in which the server executed them, before it answered. So this loss shows as a pop that no keep
follows. A task that our own code swallowed shows as a message that was kept and then removed.

A task counts as popped if its newest message was popped and never kept, and no other message of it lies
anywhere. Older ones may be removed before or after: a waiting task is published again first, and its old message
acknowledged then.

A pop is only lost where something cut it: the stop of the server, or the death of the worker. How long a pop may be
on its way is a guess, ``ON_ITS_WAY_S``. If a busy machine takes longer, a task is called lost that kombu lost. If our
code makes kombu drop a message so shortly before a cut (by closing a channel whose pop is not answered yet), it is
excused; at any other moment it is found. kombu 5.7 leaves an answer unread for as long as the prefetch is used up:
where workers are killed at random they log since when, and the cut begins then.

How this can err besides. It excuses too much if kombu popped a stale copy, the newest message of its task, while our
code swallowed an older one. It excuses nothing that lay in a list at the end, that was kept once, or that never came.
"""

from __future__ import annotations

import json
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ON_ITS_WAY_S = 5.0  # longest between a pop from Redis and kombu's keeping it; up to 3 s were seen
TICK_S = 1.0  # the file tells the time in whole seconds, rounded down
OPTIONS = {
    "appendonly": "yes",
    "aof_timestamp_enabled": "yes",
    "auto_aof_rewrite_percentage": "0",  # a rewrite would forget what came and went
}
Windows = Iterable[tuple[float, float]]
NOT_OF_MESSAGES = frozenset(b"MULTI EXEC SELECT SADD SREM ZADD ZREM SET PEXPIREAT".split())


class Command(NamedTuple):
    """What the server executed, and when by the clock of `time.monotonic()`."""

    at: float
    words: list[bytes]


class Record:
    """What the lists and the hash of kombu's Redis transport held, from their first message on."""

    def __init__(self, commands: Iterable[Command] = ()) -> None:
        self._lists: dict[bytes, deque[str]] = defaultdict(deque)  # tags, the next to pop last
        self._unacked: set[str] = set()
        self._in_flight: dict[str, float] = {}  # popped, and not kept yet
        self._task: dict[str, str] = {}  # of each tag
        self._newest: dict[str, str] = {}  # the tag of each task's newest message
        self._events: dict[str, list[str]] = defaultdict(list)
        for command in commands:
            self._execute(*command)
        self._lying = {
            self._task[tag] for tags in (*self._lists.values(), self._unacked) for tag in tags
        }

    def popped(self, task: str) -> float | None:
        """Return when kombu popped this task's message, if it never kept it."""
        at = self._in_flight.get(self._newest.get(task, ""))
        return None if task in self._lying else at

    def is_lost(self, task: str, cuts: Windows) -> bool:
        """Tell whether it was on its way from Redis to kombu when one of these began, or while it lasted."""
        at = self.popped(task)
        return at is not None and any(
            begin - ON_ITS_WAY_S <= at + TICK_S and at <= end for begin, end in cuts
        )

    def story(self, task: str) -> str:
        """Return what happened to the messages of this task."""
        return ", ".join(self._events[task]) or "nothing"

    def _execute(self, at: float, words: list[bytes]) -> None:
        match [words[0].upper(), *words[1:]]:  # kombu's scripts spell them in lower case
            case [b"LPUSH" | b"RPUSH" as way, key, message]:
                self._push(at, key, message, to_pop_next=way == b"RPUSH")
            case [b"RPOP", key]:
                popped = self._lists[key].pop()
                self._in_flight[popped] = at
                self._note(at, "popped", popped)
            case [b"HSET", b"unacked", tag, _]:
                self._keep_or_remove(at, tag.decode(), is_kept=True)
            case [b"HDEL", b"unacked", tag]:
                self._keep_or_remove(at, tag.decode(), is_kept=False)
            case [b"DEL" | b"UNLINK", *keys]:
                for key in keys:
                    self._lists.pop(key, None)
            case [name, *_] if name not in NOT_OF_MESSAGES:
                msg = f"cannot replay {words[:2]}"
                raise ValueError(msg)

    def _push(self, at: float, key: bytes, text: bytes, *, to_pop_next: bool) -> None:
        message = json.loads(text)
        tag = message["properties"]["delivery_tag"]
        task = self._task[tag] = message["headers"].get("id", "")
        self._newest[task] = tag
        tags = self._lists[key]
        (tags.append if to_pop_next else tags.appendleft)(tag)
        self._note(at, f"pushed to {key.decode()!r}", tag)

    def _keep_or_remove(self, at: float, tag: str, *, is_kept: bool) -> None:
        self._in_flight.pop(tag, None)
        (self._unacked.add if is_kept else self._unacked.discard)(tag)
        self._note(at, "kept" if is_kept else "removed", tag)

    def _note(self, at: float, what: str, tag: str) -> None:
        self._events[self._task[tag]].append(f"{tag[:4]} {what} at {at:.0f}")


def read(directory: Path) -> Record:
    """Replay what a server with these options has written down; without rewrites it is one file."""
    return Record(commands(directory / "appendonlydir" / "appendonly.aof.1.incr.aof"))


def commands(path: Path) -> Iterator[Command]:
    """Parse an append-only file: commands as clients send them, and remarks that tell the time."""
    began = time.time() - time.monotonic()
    at = 0.0
    with path.open("rb") as file:
        while line := file.readline():
            if line.startswith(b"#TS:"):
                at = float(line[4:]) - began
            elif line.startswith(b"*"):
                words = []
                for _ in range(int(line[1:])):
                    words.append(file.read(int(file.readline()[1:])))
                    file.readline()
                yield Command(at, words)
            else:
                msg = f"not a command: {line!r}"
                raise ValueError(msg)
