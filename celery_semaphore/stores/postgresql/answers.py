"""Convert the answers of the functions to values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ...core.claim import Claim, OtherClaims
from ...core.decision import Decision
from ...core.declared_limit import DeclaredLimit
from ...core.grant import Grant
from ...core.refusal import Reason, Refusal
from ...core.session import SessionReply
from ...core.snapshot import Held, Snapshot, Waiter
from ...core.wait import Kind
from ..decisions import decision, until
from ..encoding import ResourceClaim, held, seconds, ticket_of, unpacked
from .names import original


def refusal(claims: Sequence[Claim], wanted: list[ResourceClaim], answer: list[Any]) -> Refusal:
    reason, n, limit, occupied, ticket, position, retry_after, waited, *more = answer
    declared_by, others, kept = more
    if others is not None:  # A19
        raise OtherClaims(ticket_of(original(ticket)), unpacked(others))
    resource = wanted[int(n) - 1].resource
    return Refusal(
        next(claim for claim in claims if claim.resource == resource),
        Reason(reason),
        int(limit),
        int(occupied),
        ticket_of(original(ticket)) if ticket else None,
        int(position),
        seconds(retry_after),
        seconds(waited),
        original(declared_by or ""),
        int(kept),
    )


def grant(answer: list[Any]) -> Grant:
    _, ticket, token, ends, claims, payload = answer
    message = bytes.fromhex(payload.removeprefix("\\x"))
    return Grant(ticket_of(original(ticket)), int(token), unpacked(claims), message, seconds(ends))


def session_reply(answer: list[Any]) -> SessionReply:
    epoch, slept, sessions, granted, expected = answer
    return SessionReply(
        int(epoch),
        slept == "t",
        int(sessions),
        frozenset(map(original, texts(granted))),
        {original(nonce): seconds(turn) for nonce, turn in json.loads(expected)},
    )


def snapshot(resource: str, skip: int, seen: str) -> Snapshot:
    limit, by_operator, mean, now, waiting, holders, waiters, grace, *more = json.loads(seen)
    paused, declared, by, kept = more
    entries = tuple(_held(holder) for holder in holders)
    return Snapshot(
        resource,
        limit,
        by_operator,
        sum(one.weight for one in entries),
        None if mean is None else seconds(round(mean)),
        entries,
        tuple(_waiter(n, limit, waiter) for n, waiter in enumerate(waiters, skip)),
        waiting,
        seconds(now),
        None if grace is None else seconds(grace),
        until(paused),
        None if declared is None else DeclaredLimit(declared, original(by or "")),
        kept,
    )


def declarations(found: str) -> dict[str, DeclaredLimit]:
    return {name: DeclaredLimit(limit, original(by or "")) for name, limit, by in json.loads(found)}


def decisions(rows: Sequence[Sequence[str | None]]) -> dict[str, Decision]:
    decided = {}
    for name, now, *entries in rows:
        numbers = [None if each is None else int(each) for each in entries]
        decided[str(name)] = decision(int(now or 0), *numbers)
    return {name: each for name, each in decided.items() if each}


def _held(holder: list[Any]) -> Held:
    name, token, weight, since, ends, granted = holder
    return held(original(name), token, weight, since, ends, granted=granted)


def _waiter(position: int, limit: int | None, waiter: list[Any]) -> Waiter:
    ticket, kind, weight, _, _, due, session, reachable = waiter
    return Waiter(
        ticket_of(original(ticket)),
        Kind(kind),
        weight,
        position,
        seconds(due),
        limit is not None and 0 < limit < weight,
        original(session),
        reachable,
    )


_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|([^,]+)')


def texts(array: str) -> list[str]:
    """Parse an array of names, some of which the server has quoted."""
    return [
        re.sub(r"\\(.)", r"\1", quoted) or plain for quoted, plain in _WORD.findall(array[1:-1])
    ]
