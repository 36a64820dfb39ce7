"""What every store needs to ask a server: claims as it counts them, and times as it keeps them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from re import compile as pattern
from urllib.parse import quote

from ..core.key import is_resource_name, names_of
from ..core.permit import HIGHEST, Claim, Publication
from ..errors import SemaphoreError

DEFAULT_MEAN = 1_000_000  # microseconds that a permit is held, as long as nothing is known
# A permit is kept for who comes back by itself from the mean before it is due until the mean after it: so it idles
# no longer than permits are held, but not less than this, in microseconds. The first is the shortest delay, the
# second the way of a message that is due through a worker.
EARLY = 100_000
LATE = 1_000_000
_LONGEST = 4_000_000_000.0  # seconds
LONGEST_NAME = 2000  # bytes of a holder and the like: PostgreSQL's index of tickets takes 2,704
ROUNDS = 1000  # of one hand-on; what is left then is found by the next reap


@dataclass(frozen=True, slots=True)
class Ask:
    """What a call asks of one resource."""

    resource: str
    limit: int
    weight: int


def asks(claims: Sequence[Claim]) -> list[Ask]:
    """One for each resource: of two claims on one resource the weights add up."""
    if not claims:
        msg = "a permit needs at least one claim"
        raise ValueError(msg)
    for claim in claims:
        if claim.limit > HIGHEST or claim.weight > HIGHEST:
            msg = f"limit={claim.limit}, weight={claim.weight}: {HIGHEST} is the highest that can be counted"
            raise SemaphoreError(msg)
    if len(claims) == 1:
        return [Ask(claims[0].resource, claims[0].limit, claims[0].weight)]
    merged: dict[str, Ask] = {}
    for claim in claims:
        before = merged.get(claim.resource)
        weight = claim.weight + (before.weight if before else 0)
        merged[claim.resource] = Ask(claim.resource, claim.limit, weight)
    return list(merged.values())


def brief(claims: Sequence[Claim]) -> tuple[Claim, ...]:
    """Return the claims with each long name by its beginning and digest, as in the resource's name.

    A key may have any length, and what is kept of a claim must not: in the store, or in a cache.
    """
    return tuple(
        Claim(*names_of(c.resource), c.limit, c.weight, c.resource) if "~" in c.resource else c
        for c in claims
    )


def packed(claims: Sequence[Claim]) -> str:
    return _packed(brief(claims))


@lru_cache(maxsize=256)  # most calls ask for what others asked for
def _packed(claims: tuple[Claim, ...]) -> str:
    return json.dumps([(c.semaphore, c.key, c.limit, c.weight, c.resource) for c in claims])


def unpacked(text: str | bytes) -> tuple[Claim, ...]:
    return tuple(Claim(*parts) for parts in json.loads(text))


def microseconds(seconds: float) -> int:
    """Whole ones; what is longer than a double can count exactly, such as infinity, is a century."""
    return round(min(seconds, _LONGEST) * 1_000_000)


def seconds(microseconds: float | str | bytes) -> float:
    return float(microseconds) / 1_000_000


# Bytes that a name in ASCII keeps; ``%`` begins those that it writes otherwise.
PLAIN = "".join(map(chr, range(0x20, 0x7F))).replace("%", "")


def maker_of(ticket: str) -> str:
    """The holder that made it, when it was refused first."""
    return ticket[len("255.1700000000000000.") :]


LEAST_URGENT = 255  # what a ticket of priority 0 begins with
_TICKET = pattern(r"(?s)([0-9]{3})\.([0-9]{16})\..+")


def ticket_parts(ticket: str | None) -> tuple[int, int] | None:
    """The priority and the place in microseconds that a ticket carries; None if it is no ticket."""
    match = _TICKET.fullmatch(ticket or "")
    if not match or int(match[1]) > LEAST_URGENT or _size(match[0]) > LONGEST_NAME + 21:
        return None
    return LEAST_URGENT - int(match[1]), int(match[2])


def promoted(ticket: str) -> str:
    """The ticket with the highest priority, at its place."""
    return "000" + ticket[3:]


def is_promoted(ticket: str) -> bool:
    """Whether nothing can go before it but an earlier one of its kind."""
    return ticket == promoted(ticket)


def is_same_wait(ticket: str, other: str) -> bool:
    """Whether they are one ticket, which may have been promoted meanwhile."""
    return ticket[3:] == other[3:]


def check_ticket(ticket: str) -> None:
    """Raise ``ValueError`` for what no store has made."""
    if not ticket_parts(ticket):
        msg = f"no ticket of this store: {ticket!r}"
        raise ValueError(msg)


def check_holder(holder: str, publication: Publication | None) -> None:
    """Raise ``SemaphoreError`` for a holder or a message that not every store can keep."""
    check_name("holder", holder)
    if publication is not None:
        check_name("task", publication.of)
        check_name("message", publication.id)


def check_name(of: str, name: str) -> None:
    """Raise ``SemaphoreError`` for a name that is too long: asking again would not help."""
    if (size := _size(name)) > LONGEST_NAME:
        msg = (
            f"the name of a {of} takes {size} bytes, and {LONGEST_NAME} are possible (a byte that is"
            f" not plain ASCII counts as 3): give the task a shorter id; it begins with {name[:40]!r}"
        )
        raise SemaphoreError(msg)


def _size(name: str) -> int:
    """Return how many bytes a name takes in ASCII, or fewer for one that is short anyway."""
    if 12 * len(name) <= LONGEST_NAME:  # a character takes 4 bytes at most, and each of these 3
        return len(name)
    return len(quote(name.encode("utf-8", "surrogatepass"), safe=PLAIN))


def check_limit(limit: int | None, resource: str) -> None:
    """Raise ``ValueError`` for what an operator cannot set."""
    if limit is not None and not 0 <= limit <= HIGHEST:
        msg = f"a limit is a whole number from 0 to {HIGHEST}, not {limit!r}"
        raise ValueError(msg)
    if not is_resource_name(resource):
        msg = f"no resource is named {resource!r}: resource_name() makes its name"
        raise ValueError(msg)
