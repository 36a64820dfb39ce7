"""Describe how safe a message is in a store, as the store says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Safety(IntEnum):
    """Says what a message survives in a store; a larger number is safer."""

    NEVER = 0  # the store must keep no message: it ends with its process, or evicts
    UNTOLD = 1  # a crash may lose the message, or the server does not say that it would not
    LOGGED = 2  # the server logs it: a crash loses the last second at most
    COMMITTED = 3  # it is on a disk before the call is answered


@dataclass(frozen=True, slots=True)
class Durability:
    """States how a store keeps messages; no field has a password."""

    place: str  # where it was reached
    safety: Safety
    why: str  # says of the store why its safety is not higher, or is what it is: "it writes an AOF"
    # Names the running server, as its broker side would, see ``server_of``; empty if that is unknown, or if another
    # server may answer at the same address.
    server: str = ""
    memory: float = 0.0  # the part of its memory that is used; 0 without a bound
    parked: int = 0  # parked messages, counted up to the number that was asked for
    largest_payload: int | None = None  # bytes of a message that it keeps; None without a bound
    doubt: str = ""  # why it keeps less than its safety says

    def unpurged(self) -> str:
        """Say which tasks are left after all queues of the broker were purged; return an empty text if none is."""
        if not self.parked:
            return ""
        return (
            f"{self.parked} parked task(s) still wait in {self.place}, and no queue had them:"
            " `celery -A <your app> semaphore purge <name>` ends those of one semaphore"
        )


def server_of(run_id: str | None, role: str | None) -> str:
    """Name a running primary of the Redis family; return an empty text for any other server, or an unknown one."""
    return f"{run_id}" if run_id and role == "master" else ""
