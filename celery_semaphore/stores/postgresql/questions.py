"""What a call says of a message and of a permit."""

from __future__ import annotations

from typing import Any

from ...core.permit import Grant, Permit, Publication
from ..asking import asks, microseconds
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
