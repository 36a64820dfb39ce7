"""Convert the answers of the functions to values."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ...core.permit import Claim, Grant, Held, Kind, Reason, Refusal, Snapshot, Ticket
from ...core.session import Turns
from ...core.ticket import HIGHEST_PRIORITY
from ..encoding import ResourceClaim, seconds, unpacked
from .names import original


def refusal(claims: Sequence[Claim], wanted: list[ResourceClaim], answer: list[Any]) -> Refusal:
    reason, n, limit, occupied, ticket, position, retry_after, waited = answer
    resource = wanted[int(n) - 1].resource
    return Refusal(
        next(claim for claim in claims if claim.resource == resource),
        Reason(reason),
        int(limit),
        int(occupied),
        original(ticket) or None,
        int(position),
        seconds(retry_after),
        seconds(waited),
    )


def grant(answer: list[Any]) -> Grant:
    _, ticket, token, ends, claims, payload = answer
    message = bytes.fromhex(payload.removeprefix("\\x"))
    return Grant(original(ticket), int(token), unpacked(claims), message, seconds(ends))


def turns(answer: list[Any]) -> Turns:
    epoch, slept, sessions, granted, expected = answer
    return Turns(
        int(epoch),
        slept == "t",
        int(sessions),
        frozenset(map(original, texts(granted))),
        {original(nonce): seconds(turn) for nonce, turn in json.loads(expected)},
    )


def snapshot(resource: str, skip: int, seen: str) -> Snapshot:
    limit, by_operator, mean, now, waiting, holders, waiters = json.loads(seen)
    held = tuple(_held(holder) for holder in holders)
    return Snapshot(
        resource,
        limit,
        by_operator,
        sum(one.weight for one in held),
        None if mean is None else seconds(round(mean)),
        held,
        tuple(_ticket(n, limit, waiter) for n, waiter in enumerate(waiters, skip)),
        waiting,
        seconds(now),
    )


def _held(holder: list[Any]) -> Held:
    name, token, weight, since, ends, granted = holder
    return Held(original(name), token, weight, seconds(since), seconds(ends), granted)


def _ticket(position: int, limit: int | None, waiter: list[Any]) -> Ticket:
    ticket, kind, weight, urgency, place, due, session, reachable = waiter
    return Ticket(
        original(ticket),
        Kind(kind),
        weight,
        HIGHEST_PRIORITY - urgency,
        position,
        seconds(place),
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
