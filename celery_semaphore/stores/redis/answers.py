"""Convert the answers of the scripts to values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.claim import Claim, OtherClaims
from ...core.decision import Decision
from ...core.declared_limit import DeclaredLimit
from ...core.grant import Grant
from ...core.permit import Permit
from ...core.refusal import Answer, Reason, Refusal
from ...core.snapshot import Held, Snapshot, Waiter
from ...core.wait import Kind
from ..decisions import decision, until
from ..encoding import ResourceClaim, held, seconds, ticket_of, unpacked

if TYPE_CHECKING:
    from collections.abc import Sequence

PAUSE = ":"  # see lua/_call.lua


def figures(answer: bytes | int) -> list[int]:
    """Return the numbers of a short answer, a text that the driver reads in one piece."""
    return [answer] if isinstance(answer, int) else [int(figure) for figure in answer.split()]


def permit_or_refusal(
    claims: Sequence[Claim], wanted: list[ResourceClaim], holder: str, answer: list[Any]
) -> Answer:
    """Return the answer to an acquire; raise ``OtherClaims``."""
    if isinstance(answer[1], int):
        epoch, token, since, ends = answer
        return Permit(holder, token, tuple(claims), seconds(since), seconds(ends), epoch)
    check_claims(answer)
    return refusal(claims, wanted, answer)


def refusal(claims: Sequence[Claim], wanted: list[ResourceClaim], answer: list[Any]) -> Refusal:
    _, reason, n, limit, occupied, ticket, position, retry_after, waited, declared_by, kept = answer
    resource = wanted[n - 1].resource
    return Refusal(
        next(claim for claim in claims if claim.resource == resource),
        Reason(reason.decode()),
        limit,
        occupied,
        ticket_of(text(ticket)) if ticket else None,
        position,
        seconds(retry_after),
        seconds(waited),
        text(declared_by),
        kept,
    )


def check_claims(answer: list[Any]) -> None:
    """A19: raise ``OtherClaims`` if the wait of the call's ticket has other claims."""
    if answer[1:2] == [b"other claims"]:
        raise OtherClaims(ticket_of(text(answer[3])), unpacked(answer[2]))


def grant(answer: list[Any]) -> Grant:
    ticket, token, ends, claims, payload = answer
    return Grant(ticket_of(text(ticket)), token, unpacked(claims), payload, seconds(ends))


def snapshot(resource: str, skip: int, answer: list[Any]) -> Snapshot:
    _, limit, by_operator, mean, now, waiting, holders, waiters, grace, paused, declared, kept = (
        answer
    )
    in_force = None if limit == b"" else limit
    entries = [_held(holder) for holder in holders]
    return Snapshot(
        resource,
        in_force,
        bool(by_operator),
        sum(one.weight for one in entries),
        None if mean == b"" else seconds(mean),
        tuple(sorted(entries, key=lambda one: one.token)),
        tuple(_waiter(n, in_force, waiter) for n, waiter in enumerate(sorted(waiters), skip)),
        waiting,
        seconds(now),
        None if grace == b"" else seconds(grace),
        until(None if paused == b"" else paused),
        declaration(declared),
        kept,
    )


def declaration(declared: list[Any]) -> DeclaredLimit | None:
    return DeclaredLimit(declared[0], text(declared[1])) if declared else None


def decisions(answer: list[Any]) -> dict[str, Decision]:
    _, now, said = answer
    # The limit of a name and when it was set, then the end of its pause and when that began.
    found: dict[str, list[int | None]] = {}
    for name, entry in zip(*[iter(map(text, said))] * 2, strict=True):
        entries = found.setdefault(name.lstrip(PAUSE), [None] * 4)
        at = 2 * name.startswith(PAUSE)
        entries[at : at + 2] = map(int, entry.split())
    decided = ((name, decision(now, *entries)) for name, entries in found.items())
    return {name: each for name, each in decided if each}


def _held(holder: list[Any]) -> Held:
    name, token, weight, since, ends, granted = holder
    return held(text(name), token, weight, since, ends, granted=bool(granted))


def _waiter(position: int, limit: int | None, waiter: list[Any]) -> Waiter:
    ticket, kind, weight, due, session, reachable = waiter
    return Waiter(
        ticket_of(text(ticket)),
        Kind(kind.decode()),
        weight,
        position,
        seconds(due),
        limit is not None and 0 < limit < weight,
        text(session),
        bool(reachable),
    )


def text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")
