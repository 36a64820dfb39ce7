"""Define the views of a semaphore that an operator sees. Durations are in seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf

from ..core.decision import Decision
from ..core.declared_limit import DeclaredLimit
from ..core.key import names_of, semaphore_of
from ..core.names import task_id_of
from ..core.snapshot import Held, Snapshot, Waiter
from ..core.ticket import Ticket
from ..core.totals import Totals
from ..core.wait import Kind


class Where(StrEnum):
    """Says where the message of a waiting task is."""

    KEPT = "kept"  # by a worker, unacknowledged
    PARKED = "parked"  # in the store
    CALLING = "calling"  # there is no message: a process waits for the permit
    # With the broker, or with a worker that has no free process for it; or the worker or process that had it does not
    # answer. Until that changes, it is granted nothing.
    IN_TRANSIT = "in transit"


_REACHABLE = {Kind.REQUEUE: Where.KEPT, Kind.PARK: Where.PARKED, Kind.BLOCK: Where.CALLING}


@dataclass(frozen=True, slots=True)
class SemaphoreView:
    """Shows one semaphore, with all its keys together."""

    resource: str  # its name in the store
    semaphore: str  # a very long name is cut, with a digest at its end
    # In force, but for a pause; several if those of its keys differ, none if the store knows none.
    limits: tuple[int, ...]
    limits_set: tuple[int, ...]  # the ones among them that operators set
    keys: int  # in use; 0 for a semaphore without keys
    occupied: int
    waiting: int
    # How long no task is admitted, since the store may have forgotten permits; None outside such a grace.
    recovering: float | None = None
    waiting_place: str | None = (
        None  # where its waiting tasks lie, and why; None if their options say it
    )
    oldest_wait: float | None = (
        None  # how long the oldest of its waits has lasted; None without one
    )
    paused: bool = False  # the whole semaphore
    pause_left: float | None = None  # until that pause ends; None: until it is resumed
    paused_keys: int = 0  # with a pause of their own
    # The smallest limit that was declared last without a key, else for all keys, and its process.
    declared: DeclaredLimit | None = None
    kept_room: int = 0  # see Snapshot.kept
    own_limit: int | None = (
        None  # what this app's tasks declare; in force only if it is among the limits
    )
    saturated: bool = False  # tasks wait because no permit is free, at any key
    saturated_keys: int = 0
    unsatisfiable: int = 0  # of its waits, those that were found too heavy for the limit in force

    @classmethod
    def of(
        cls,
        name: str,
        seen: Sequence[Totals],
        decisions: Mapping[str, Decision],
        elsewhere: Sequence[Snapshot],
        own_limit: int | None,
        *,
        recovering: float | None = None,
    ) -> SemaphoreView:
        """Build the view from the keys in use, and all that operators decided.

        ``elsewhere`` are the semaphore without a key, and a key that is not in use.
        """
        limits = limits_of(decisions)
        pauses = {at: each.pause for at, each in decisions.items() if each.pause}
        pause = pauses.pop(name, None)
        of_keys = {at for at in limits if at != name and semaphore_of(at) == name}
        in_force = {each.limit for each in seen} | {limits[at] for at in of_keys}
        saturated = [each.resource for each in seen if is_saturated(each)]
        if all(each.resource in of_keys for each in seen):
            in_force |= {each.limit for each in elsewhere}  # what the next task would have
        return cls(
            name,
            names_of(name)[0],
            tuple(sorted(limit for limit in in_force if limit is not None)),
            tuple(sorted({limits[at] for at in {*of_keys, name} & limits.keys()})),
            sum("/" in each.resource for each in seen),
            sum(each.occupied for each in seen),
            sum(each.waiting for each in seen),
            recovering=recovering,
            oldest_wait=longest(each.oldest_wait for each in seen),
            paused=pause is not None,
            pause_left=None if pause is None else pause.left,
            paused_keys=sum(semaphore_of(at) == name for at in pauses),
            declared=next((each.declared for each in elsewhere if each.declared), None),
            kept_room=sum(each.kept for each in seen),
            own_limit=own_limit,
            saturated=bool(saturated),
            saturated_keys=sum("/" in at for at in saturated),
            unsatisfiable=sum(each.set_aside for each in seen),
        )


@dataclass(frozen=True, slots=True)
class PermitView:
    """Shows one permit, or one that is kept for a task on its way (``granted``)."""

    holder: str  # the argument of ``take_away``; of a grant, the nonce of its wait
    task_id: str  # for a holder outside tasks: host and process
    task: str | None  # its name, if a worker answered
    worker: str | None  # where it runs, if a worker answered
    weight: int
    held_for: float
    lease_left: float
    granted: bool

    @classmethod
    def of(cls, held: Held, at: float) -> PermitView:
        since, left = at - held.acquired_at, max(held.expires_at - at, 0.0)
        task_id = task_id_of(held.holder)
        return cls(held.holder, task_id, None, None, held.weight, since, left, held.granted)


@dataclass(frozen=True, slots=True)
class WaiterView:
    """Shows one waiter; position 0 is the head of the line."""

    position: int
    ticket: Ticket
    task_id: str  # for a waiter outside tasks: host and process
    task: str | None  # its name, if a worker answered
    worker: str | None  # the worker that keeps it, if it answered
    kind: Kind
    where: Where
    weight: int
    priority: int
    waited: float
    # Until its turn; None if that cannot be predicted, as while all permits are held for much longer than usual.
    expected: float | None
    unsatisfiable: bool  # its weight is above the limit in force

    @classmethod
    def of(cls, waiter: Waiter, seen: Snapshot) -> WaiterView:
        ticket = waiter.ticket
        return cls(
            waiter.position,
            ticket,
            task_id_of(ticket.nonce),
            None,
            None,
            waiter.kind,
            _where(waiter),
            waiter.weight,
            ticket.priority,
            max(seen.at - ticket.since, 0.0),
            _expected(waiter, seen),
            waiter.unsatisfiable,
        )


@dataclass(frozen=True, slots=True)
class KeyView:
    """Shows one key in the list of its semaphore's keys; ``ResourceView`` shows its permits and waiters."""

    resource: str  # its name in the store
    semaphore: str  # a very long name is cut, with a digest at its end
    key: str | None  # cut likewise
    limit: int | None  # in force, but for a pause; None if the store knows none
    set_by_operator: bool
    occupied: int
    waiting: int
    unsatisfiable: int  # of its waits, those that were found too heavy for the limit in force
    kept_room: int  # see Snapshot.kept
    mean_held: float | None  # how long permits were held lately
    oldest_wait: float | None  # how long the oldest wait has lasted; None without one
    paused: bool  # it, or its semaphore
    saturated: bool  # tasks wait because no permit is free, not only because of a pause
    own_limit: int | None  # what this app's tasks declare; the store may know another, or none

    @classmethod
    def of(cls, seen: Totals, own_limit: int | None) -> KeyView:
        return cls(
            seen.resource,
            *names_of(seen.resource),
            seen.limit,
            seen.set_by_operator,
            seen.occupied,
            seen.waiting,
            seen.set_aside,
            seen.kept,
            seen.mean_held,
            seen.oldest_wait,
            seen.paused,
            is_saturated(seen),
            own_limit,
        )

    @property
    def is_free(self) -> bool:
        """Whether there is no permit, no kept room and no wait."""
        return not (self.occupied or self.kept_room or self.waiting)


@dataclass(frozen=True, slots=True)
class ResourceView:
    """Shows one key of a semaphore, or a semaphore without keys."""

    resource: str  # its name in the store
    semaphore: str  # a very long name is cut, with a digest at its end
    key: str | None  # cut likewise
    limit: int | None  # in force, but for a pause; None if the store knows none
    set_by_operator: bool
    occupied: int
    waiting: int  # all of them
    mean_held: float | None  # how long permits were held lately
    permits: tuple[PermitView, ...]  # oldest first
    waiters: tuple[WaiterView, ...]  # in order; a part of the line
    note: str | None = None  # why tasks and workers are not named
    # How long no task is admitted, since the store may have forgotten permits; None outside such a grace.
    recovering: float | None = None
    waiting_place: str | None = (
        None  # where its waiting tasks lie, and why; None if their options say it
    )
    oldest_wait: float | None = (
        None  # how long the oldest of all its waits has lasted; None without one
    )
    paused: bool = False  # it, or its semaphore
    pause_left: float | None = None  # until the pause ends; None: until it is resumed
    declared: DeclaredLimit | None = (
        None  # the smallest limit that was declared last, and its process
    )
    kept_room: int = 0  # see Snapshot.kept
    own_limit: int | None = (
        None  # what this app's tasks declare; the store may know another, or none
    )
    for_each_key: bool = False  # of a whole semaphore: the limit is the one of each key
    saturated: bool = False  # tasks wait because no permit is free, not only because of a pause
    unsatisfiable: int = 0  # of its waits, those that were found too heavy for the limit in force

    def with_limit_of(self, key: Snapshot) -> ResourceView:
        """Return the view of a whole semaphore that is used with keys: with the limit of a ``key`` without its own."""
        return replace(
            self,
            limit=key.limit,
            set_by_operator=key.set_by_operator,
            declared=key.declared,
            for_each_key=True,
        )

    @property
    def is_free(self) -> bool:
        """Whether there is no permit, no kept room and no wait."""
        return not (self.occupied or self.kept_room or self.waiting)

    @property
    def is_unknown(self) -> bool:
        """Whether there is nothing to show: nothing uses it, no limit is in force, and it is not paused."""
        return self.is_free and self.limit is None and not self.paused

    @property
    def outlasts_mean(self) -> bool:
        """Whether each permit in use has been held for much longer than usual, so that no turn can be predicted."""
        return _outlasts(self.mean_held, [each.held_for for each in self.permits])

    def with_keys(self, keys: Sequence[KeyView]) -> ResourceView:
        """Return the view of a whole semaphore: what is used and waits at its keys is counted with its own."""
        return replace(
            self,
            occupied=self.occupied + sum(each.occupied for each in keys),
            kept_room=self.kept_room + sum(each.kept_room for each in keys),
            waiting=self.waiting + sum(each.waiting for each in keys),
            saturated=self.saturated or any(each.saturated for each in keys),
            oldest_wait=longest([self.oldest_wait, *(each.oldest_wait for each in keys)]),
            unsatisfiable=self.unsatisfiable + sum(each.unsatisfiable for each in keys),
        )

    @classmethod
    def of(cls, seen: Snapshot, oldest_wait: float | None) -> ResourceView:
        until = seen.paused_until
        return cls(
            seen.resource,
            *names_of(seen.resource),
            seen.limit,
            seen.set_by_operator,
            seen.occupied,
            seen.waiting,
            seen.mean_held,
            tuple(PermitView.of(held, seen.at) for held in seen.holders),
            tuple(WaiterView.of(waiter, seen) for waiter in seen.waiters),
            recovering=recovering_for(seen),
            oldest_wait=oldest_wait,
            paused=until is not None,
            pause_left=None if until is None or until == inf else until - seen.at,
            declared=seen.declared,
            kept_room=seen.kept,
            saturated=is_saturated(seen),
        )


View = SemaphoreView | KeyView | ResourceView


@dataclass(frozen=True, slots=True)
class Purged:
    """Lists what a purge did with the waiters."""

    ended: list[str]  # ids of tasks that were parked
    revoked: list[str]  # ids of the other tasks, which their workers end later
    unheard: int  # tasks that were not revoked, because no worker answered
    calls: int  # waiters outside tasks: only their own processes can end these


def longest(waits: Iterable[float | None]) -> float | None:
    """Return the longest of these waits; None without any."""
    return max((each for each in waits if each is not None), default=None)


def is_saturated(seen: Snapshot | Totals) -> bool:
    """Return whether tasks wait because permits are in use, or kept for a wait of several semaphores.

    A single permit may be free if the weight of the first waiter is known, and is larger.
    """
    if not (seen.waiting and seen.limit):
        return False
    waiters = seen.waiters if isinstance(seen, Snapshot) else ()
    head = next((each.weight for each in waiters if each.position == 0), 1)
    return seen.occupied + seen.kept + min(head, seen.limit) > seen.limit


def limits_of(decisions: Mapping[str, Decision]) -> dict[str, int]:
    """Return the limits that operators set, by the name of a resource or a semaphore."""
    return {at: each.limit for at, each in decisions.items() if each.limit is not None}


def _where(waiter: Waiter) -> Where:
    return _REACHABLE[waiter.kind] if waiter.reachable else Where.IN_TRANSIT


def recovering_for(seen: Snapshot) -> float | None:
    """Return for how long the store admits no task; None outside a grace."""
    return None if seen.grace_until is None else seen.grace_until - seen.at


def _expected(waiter: Waiter, seen: Snapshot) -> float | None:
    """Predict the time until the turn.

    None if it depends on the end of a pause or on a delivery by the broker, or if the permits in use refute the mean.
    """
    paused = seen.paused_until is not None
    if paused or waiter.unsatisfiable or not seen.limit or seen.mean_held is None:
        return None
    if _outlasts(seen.mean_held, [seen.at - held.acquired_at for held in seen.holders]):
        return None
    turn = (waiter.position + 1) / seen.limit * seen.mean_held + (recovering_for(seen) or 0.0)
    if waiter.reachable:
        return turn
    is_delayed = not waiter.session and waiter.due > seen.at  # published with a delay
    return max(turn, waiter.due - seen.at) if is_delayed else None


def _outlasts(mean_held: float | None, held_for: Collection[float]) -> bool:
    """Return whether there are permits, and each has been held for more than twice the mean: less is common."""
    return mean_held is not None and bool(held_for) and min(held_for) > 2 * mean_held
