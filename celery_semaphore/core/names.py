"""Make and measure the names of holders, sessions, tasks and messages."""

from __future__ import annotations

import os
import socket
from functools import cache
from urllib.parse import quote

LONGEST_NAME = 2000  # bytes of a name: PostgreSQL's index of tickets takes 2,704
SHOWN = 128  # characters of a worker's name that are kept beside a limit

# Characters that a name in ASCII keeps; ``%`` begins an encoded one.
PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


class ProcessName:
    """Holds the name of the worker that runs in this process, or in the one that it was forked from."""

    worker = ""


def process_name() -> str:
    """Return what operators know this process by: its worker, else its id and host."""
    return ProcessName.worker[:SHOWN] or f"{os.getpid()}@{_host()}"


def new_name() -> str:
    """Return a unique name that shows an operator the host and the process."""
    return f"{_host()}/{os.getpid()}:{os.urandom(8).hex()}"


@cache  # it lets other threads run, so that a loop would wait at each acquire for the thread of its calls
def _host() -> str:
    return socket.gethostname()


def task_id_of(holder: str) -> str:
    """Return the task id in the name of a holder; for a holder outside tasks, its host and process."""
    return holder.rpartition(":")[0] or holder


def size_of(name: str) -> int:
    """Return the number of bytes that a name takes in ASCII; for a short name, its length."""
    if 12 * len(name) <= LONGEST_NAME:  # a character takes at most 4 bytes, encoded as 3 each
        return len(name)
    return len(quote(name.encode("utf-8", "surrogatepass"), safe=PLAIN))
