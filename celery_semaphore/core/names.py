"""Names of holders, sessions, tasks and messages: how they are made, and how long they may be in a store."""

from __future__ import annotations

import os
import socket
from urllib.parse import quote

LONGEST_NAME = 2000  # bytes of a holder and the like: PostgreSQL's index of tickets takes 2,704

# Bytes that a name in ASCII keeps; ``%`` begins those that it writes otherwise.
PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def new_name() -> str:
    """Return a unique name in which an operator finds this process."""
    return f"{socket.gethostname()}/{os.getpid()}:{os.urandom(8).hex()}"


def task_id_of(holder: str) -> str:
    """Return the id of the task whose delivery is this holder; outside tasks, its host and process."""
    return holder.rpartition(":")[0] or holder


def size_of(name: str) -> int:
    """Return how many bytes a name takes in ASCII, or fewer for one that is short anyway."""
    if 12 * len(name) <= LONGEST_NAME:  # a character takes 4 bytes at most, and each of these 3
        return len(name)
    return len(quote(name.encode("utf-8", "surrogatepass"), safe=PLAIN))
