"""What a call says of a message and of a permit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.permit import Grant, Permit, Publication
from ...core.session import EXPECTED, HeldWait
from ...core.ticket import nonce_of
from ..encoding import asks, check_ticket, microseconds, packed
from .names import stored


def brought_by(publication: Publication | None) -> tuple[str, str | None, int]:
    """The task, which of its messages (None: the first), and for how long to remember it."""
    if publication is None:
        return "", None, 0
    message = None if publication.is_first else stored(publication.id)
    return stored(publication.of), message, microseconds(publication.remember)


def published(grant: Grant) -> dict[str, Any]:
    """Return what ``sent`` says of a message that the broker has."""
    resources = [ask.resource for ask in asks(grant.claims)]
    return {
        "ticket": stored(grant.ticket),
        "token": grant.token,
        "ends": microseconds(grant.expires_at),
        "resources": resources,
    }


def renewed(permit: Permit) -> dict[str, Any]:
    wanted = asks(permit.claims)
    return {
        "holder": stored(permit.holder),
        "token": permit.token,
        "since": microseconds(permit.acquired_at),
        "epoch": permit.epoch,
        "resources": [ask.resource for ask in wanted],
        "limits": [ask.limit for ask in wanted],
        "weights": [ask.weight for ask in wanted],
    }


def asked(begun: Sequence[HeldWait], look: Sequence[HeldWait]) -> tuple[list[str], ...]:
    """The nonces of what is taken up, and their resources; a nonce and a resource for each place to look at."""
    places = [(wait, ask.resource) for wait in look[:EXPECTED] for ask in asks(wait.claims)]
    return (
        [stored(nonce_of(wait.ticket)) for wait in begun],
        sorted({ask.resource for wait in begun for ask in asks(wait.claims)}),
        [stored(nonce_of(wait.ticket)) for wait, _ in places],
        [resource for _, resource in places],
    )


def named(wait: HeldWait) -> dict[str, Any]:
    check_ticket(wait.ticket)
    wanted = asks(wait.claims)
    return {
        "ticket": stored(wait.ticket),
        "kind": str(wait.kind),
        "keeps": microseconds(wait.keeps),
        "claims": packed(wait.claims),
        "resources": [ask.resource for ask in wanted],
        "limits": [ask.limit for ask in wanted],
        "weights": [ask.weight for ask in wanted],
    }
