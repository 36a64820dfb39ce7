"""Decide whether a waiting task is parked: whether its message is as safe in the store as with the broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace

from ..errors import SemaphoreError
from .durability import Durability, Safety
from .wait_policy import OnSaturated

OWN_SERVER = "it is the broker's own server"
NOT_OWN = "not known to be the broker's own server"
UNKNOWN = "what it keeps is not known yet"


class OversizedMessage(SemaphoreError):
    """The message takes more bytes than are parked."""

    def __init__(self, size: int, most: int, *, of_store: bool = False) -> None:
        setting = (
            f"semaphore_park_max_size is {most}; pass large arguments by reference, or raise it"
        )
        store = f"this store keeps at most {most}; pass large arguments by reference"
        super().__init__(f"its message takes {size} bytes, and {store if of_store else setting}")


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """States what the decision must know of the broker that a worker consumes from."""

    server: str = (
        ""  # its running server, as in ``Durability``; empty if unknown, or if several may answer
    )
    quorum: str = ""  # the name of a quorum queue; empty without one


@dataclass(frozen=True, slots=True)
class ParkingDecision:
    """States whether tasks with ``on_saturated="wait"`` are parked, and why."""

    place: str  # the store, without a password
    why: str
    _: KW_ONLY
    parks: bool = False
    weaker: bool = False  # the store keeps less than the broker: so does what ``on_saturated="park"`` parks there
    shared: bool = False  # with workers of another broker: only therefore nothing is parked
    shortage: str = ""  # why no task is parked there at present, whatever its options say; empty if there is room

    def parked_there(self, on_saturated: OnSaturated) -> bool:
        """Return whether a task with this option is parked if it must wait."""
        wanted = (
            self.parks if on_saturated is OnSaturated.WAIT else on_saturated is OnSaturated.PARK
        )
        return wanted and not self.shortage

    def beside(self, own: str, others: Sequence[str]) -> ParkingDecision:
        """Return the decision for a store that workers of ``others`` use, too; ``own`` is this worker's broker.

        A permit that is granted to a parked task idles until a worker of its broker has sent it, and if none is left,
        until its grant ends. A kept task is passed over.
        """
        if not (self.parks and others):
            return self
        why = (
            f"workers of several brokers use it, {' and '.join([own, *others])}; if these are one and the same, set"
            ' semaphore_broker to one name for all workers, or park all the same with on_saturated="park"'
        )
        return replace(self, parks=False, shared=True, why=why)

    def __str__(self) -> str:
        if self.parks and not self.shortage:
            return f"waiting tasks are parked in {self.place}: {self.why}"
        why = self.shortage or self.why
        return f"waiting tasks are kept by workers, not parked in {self.place}: {why}"


def decided(durability: Durability, broker: BrokerFacts) -> ParkingDecision:
    """Return whether the store may keep messages."""
    place, why, safety = durability.place, durability.why, durability.safety
    if safety is Safety.NEVER:
        return ParkingDecision(place, why, weaker=True)
    if safety is Safety.COMMITTED:
        doubts = f", but {durability.doubt}" if durability.doubt else ""
        return ParkingDecision(place, why + doubts, parks=True, weaker=bool(durability.doubt))
    if durability.server and durability.server == broker.server:
        return ParkingDecision(place, OWN_SERVER, parks=True)
    if safety is Safety.LOGGED and not broker.quorum:
        return ParkingDecision(place, why, parks=True)
    if safety is Safety.LOGGED:
        less = f"{why}, which is less than the quorum queue {broker.quorum!r} keeps"
        return ParkingDecision(place, less, weaker=True)
    return ParkingDecision(place, f"{why}, and it is {NOT_OWN}", weaker=True)


@dataclass(frozen=True, slots=True)
class ParkingRoom:
    """States up to where a store is filled with parked messages; less than that is left to other data."""

    most: int  # parked messages
    memory: float = 0.8  # the part of the server's memory
    resume: float = 0.9  # parking goes on below this part of both, so that it does not flap

    def shortage(self, durability: Durability, *, lacking: bool) -> str:
        """Return why the store has no room, empty if it has; ``lacking`` is whether it had none before."""
        part = self.resume if lacking else 1.0
        if durability.memory >= part * self.memory:
            return f"{durability.memory:.0%} of its maxmemory is used"
        if durability.parked >= part * self.most:
            return f"it has {durability.parked} parked tasks, and semaphore_park_max_waiting is {self.most}"
        return ""
