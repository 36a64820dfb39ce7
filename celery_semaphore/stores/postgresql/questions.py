"""Convert messages, permits and waits to the parameters of calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.claim import Claim
from ...core.grant import Grant
from ...core.message_id import MessageId
from ...core.names import process_name
from ...core.permit import Permit
from ...core.session import EXPECTED, HeldWait
from ...core.wait import Wait
from ..encoding import DEFAULT_WAIT, ResourceClaim, microseconds, packed, resource_claims
from .connection import Composite, Field
from .names import stored


def acquisition(
    holder: str,
    wait: Wait | None,
    message_id: MessageId | None,
    claims: Sequence[Claim],
    wanted: Sequence[ResourceClaim],
) -> Composite:
    """Return a ``v1_acquisition``: what ``acquire`` asks for, with the claims by resource."""
    how, message = _waiting(wait, claims), brought_by(message_id)
    by = stored(process_name())
    again = stored(message_id.task_id) if message_id and message_id.redelivered else None
    return Composite((stored(holder), None, *how, *message, again, by, *columns(wanted)))


def _waiting(wait: Wait | None, claims: Sequence[Claim]) -> tuple[Field, ...]:
    """Return how the holder would wait; without a wait the kind and the claims are empty."""
    how = wait or DEFAULT_WAIT
    ticket = wait.ticket.text if wait and wait.ticket else ""
    return (
        stored(ticket),
        str(wait.kind) if wait else "",
        how.priority,
        microseconds(how.shortest),
        microseconds(how.longest),
        how.jitter,
        None if how.timeout is None else microseconds(how.timeout),
        stored(how.session),
        microseconds(how.keeps),
        packed(claims) if wait else "",
    )


def columns(wanted: Sequence[ResourceClaim]) -> tuple[list[str], list[int | None], list[int]]:
    """Return the resources, limits and weights of claims."""
    return (
        [claim.resource for claim in wanted],
        [claim.limit for claim in wanted],
        [claim.weight for claim in wanted],
    )


def brought_by(message_id: MessageId | None) -> tuple[str, str | None, int]:
    """Return the task, which of its messages (None: the first), and how long to keep its record."""
    if message_id is None:
        return "", None, 0
    message = None if message_id.is_first else stored(message_id.number)
    return stored(message_id.task), message, microseconds(message_id.remember_for)


def published(grant: Grant) -> dict[str, Any]:
    """Return a message that the broker has, as a parameter of ``sent``."""
    resources = [claim.resource for claim in resource_claims(grant.claims)]
    return {
        "ticket": stored(grant.ticket.text),
        "token": grant.token,
        "ends": microseconds(grant.expires_at),
        "resources": resources,
    }


def renewed(permit: Permit) -> dict[str, Any]:
    wanted = resource_claims(permit.claims)
    return {
        "holder": stored(permit.holder),
        "token": permit.token,
        "since": microseconds(permit.acquired_at),
        "epoch": permit.epoch,
        "resources": [claim.resource for claim in wanted],
        "limits": [claim.limit for claim in wanted],
        "weights": [claim.weight for claim in wanted],
    }


def asked(begun: Sequence[HeldWait], to_forecast: Sequence[HeldWait]) -> tuple[list[str], ...]:
    """Return the nonces and the resources of begun waits, then a nonce and a resource for each wait to forecast."""
    places = [
        (wait, claim.resource)
        for wait in to_forecast[:EXPECTED]
        for claim in resource_claims(wait.claims)
    ]
    return (
        [stored(wait.ticket.nonce) for wait in begun],
        sorted({claim.resource for wait in begun for claim in resource_claims(wait.claims)}),
        [stored(wait.ticket.nonce) for wait, _ in places],
        [resource for _, resource in places],
    )


def named(wait: HeldWait) -> dict[str, Any]:
    wanted = resource_claims(wait.claims)
    return {
        "ticket": stored(wait.ticket.text),
        "kind": str(wait.kind),
        "keeps": microseconds(wait.keeps),
        "claims": packed(wait.claims),
        "resources": [claim.resource for claim in wanted],
        "limits": [claim.limit for claim in wanted],
        "weights": [claim.weight for claim in wanted],
    }
