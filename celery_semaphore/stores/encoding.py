"""Encode the arguments of a store: claims, names and times; and check them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ..core.claim import HIGHEST, Claim
from ..core.key import names_of
from ..core.message_id import MessageId
from ..core.names import LONGEST_NAME, size_of
from ..core.snapshot import Held
from ..core.store import CONSUMED_FOR_S, TOTALLED
from ..core.ticket import Ticket
from ..core.totals import Totals
from ..core.wait import Kind, Wait
from ..errors import SemaphoreError

DEFAULT_MEAN = 1_000_000  # microseconds that a permit is held, until one was released
KEPT_ROOM = (
    1.0  # seconds that kept room lasts (H12), beside twice the time until the turn of its wait
)
KEPT_ROOMS = 20  # waits that keep room at a resource: one behind so many keeps none there
_LONGEST_S = 4_000_000_000.0  # seconds
DEFAULT_WAIT = Wait(Kind.REQUEUE)  # has the bounds of the delay for a caller that would not wait
ROUNDS = 1000  # calls of one hand-on at most; the next reaper continues


@dataclass(frozen=True, slots=True)
class ResourceClaim:
    """The limit and the weight that a call has on one resource."""

    resource: str
    limit: int | None  # None: it declares none
    weight: int


def resource_claims(claims: Sequence[Claim]) -> list[ResourceClaim]:
    """Return one claim for each resource: the weights of two claims on one resource add up."""
    if not claims:
        msg = "a permit needs at least one claim"
        raise ValueError(msg)
    for claim in claims:
        if (claim.limit or 0) > HIGHEST or claim.weight > HIGHEST:
            msg = f"limit={claim.limit}, weight={claim.weight}: {HIGHEST} is the highest that can be counted"
            raise SemaphoreError(msg)
    if len(claims) == 1:
        return [ResourceClaim(claims[0].resource, claims[0].limit, claims[0].weight)]
    merged: dict[str, ResourceClaim] = {}
    for claim in claims:
        before = merged.get(claim.resource)
        weight = claim.weight + (before.weight if before else 0)
        merged[claim.resource] = ResourceClaim(claim.resource, claim.limit, weight)
    return list(merged.values())


def brief(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims with each long name shortened to its beginning and digest, as in the resource's name.

    A key may have any length, but a claim that is kept in a store or a cache must be short.
    """
    return tuple(
        Claim(*names_of(c.resource), c.limit, c.weight, c.resource) if "~" in c.resource else c
        for c in claims
    )


def packed(claims: Sequence[Claim]) -> str:
    return _packed(brief(claims))


@lru_cache(maxsize=256)  # most calls repeat the claims of others
def _packed(claims: tuple[Claim, ...]) -> str:
    return json.dumps([(c.semaphore, c.key, c.limit, c.weight, c.resource) for c in claims])


def unpacked(text: str | bytes) -> tuple[Claim, ...]:
    return tuple(Claim(*parts) for parts in json.loads(text))


def microseconds(seconds: float) -> int:
    """Convert to whole microseconds, at most a century: a double cannot count longer times, or infinity, exactly."""
    return round(min(seconds, _LONGEST_S) * 1_000_000)


def seconds(microseconds: float | str | bytes) -> float:
    return float(microseconds) / 1_000_000


def ticket_of(text: str) -> Ticket:
    """Parse the ticket of a wait in a store; raise ``ValueError`` for a text that no store has written."""
    ticket = Ticket.parse(text)
    if ticket is None:
        msg = f"not a ticket of this store: {text!r}"
        raise ValueError(msg)
    return ticket


def name_of(holder: str | Ticket) -> str:
    """Return the name of a holder, or the text of a ticket that is released in its place."""
    return holder.text if isinstance(holder, Ticket) else holder


def held(name: str, token: int, weight: int, since: int, ends: int, *, granted: bool) -> Held:
    """Return a permit or a grant for a snapshot; a grant has the text of its ticket for a name."""
    ticket = ticket_of(name) if granted else None
    holder = ticket.nonce if ticket else name
    return Held(holder, token, weight, seconds(since), seconds(ends), ticket)


def check_holder(holder: str, message_id: MessageId | None) -> None:
    """Raise ``SemaphoreError`` for a holder or a message that not every store can keep."""
    check_name("holder", holder)
    if message_id is not None:
        check_name("task", message_id.task)
        check_name("message", message_id.number)


def check_name(of: str, name: str) -> None:
    """Raise ``SemaphoreError`` for a name that is too long: a retry would not help."""
    if (size := size_of(name)) > LONGEST_NAME:
        msg = (
            f"the name of a {of} takes {size} bytes, but at most {LONGEST_NAME} are possible (a byte that is"
            f" not plain ASCII counts as 3): give the task a shorter id; it begins with {name[:40]!r}"
        )
        raise SemaphoreError(msg)


def check_consumed(worker: str, queues: Iterable[str]) -> None:
    """Raise ``SemaphoreError`` for a worker or a queue that not every store can keep."""
    check_name("worker", worker)
    for queue in queues:
        check_name("queue", queue)


def consumed_for(lease: int) -> int:
    """Return for how many microseconds a worker counts as a consumer after it said so."""
    return max(microseconds(CONSUMED_FOR_S), lease)


def check_totalled(resources: Sequence[str]) -> None:
    """Raise ``ValueError`` for more resources than one call may count: other calls wait for it."""
    if len(resources) > TOTALLED:
        msg = f"totals() counts at most {TOTALLED} resources in one call, not {len(resources)}: ask in batches"
        raise ValueError(msg)


def totals_of(resource: str, figures: Sequence[str | None]) -> Totals:
    """Return the totals that a server has counted; None stands for a limit or a time that there is not."""
    limit, by_operator, paused, kept, mean, *counts, oldest_wait, outbox, outbox_oldest = figures
    held, granted, parked, reachable, in_transit, set_aside = map(_count, counts)
    return Totals(
        resource,
        None if limit is None else int(limit),
        by_operator == "t",
        held,
        granted,
        parked,
        reachable,
        in_transit,
        set_aside,
        _elapsed(oldest_wait),
        _count(outbox),
        _elapsed(outbox_oldest),
        paused == "t",
        _count(kept),
        None if mean is None else seconds(mean),
    )


def _count(figure: str | None) -> int:
    return int(figure or 0)


def _elapsed(since: str | None) -> float | None:
    return None if since is None else max(0.0, seconds(since))  # the clock may step back
