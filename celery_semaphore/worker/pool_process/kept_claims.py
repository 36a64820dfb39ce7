"""What a task asks for that waits with other claims than it has now (A19)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...core.claim import Claim, OtherClaims


def instead(own: Sequence[Claim], wait: OtherClaims) -> tuple[Sequence[Claim], OtherClaims | None]:
    """Return the claims to ask for instead of its own: those of the wait, with the limits that the task declares now.

    If that wait could never run, return the task's own, and the wait, which must be ended before.
    """
    kept = _with_limits_of(own, wait.claims)
    resources = {claim.resource for claim in own}
    if any(_is_too_heavy(claim, asked_again=claim.resource in resources) for claim in kept):
        return own, wait
    return kept, None


def _with_limits_of(own: Sequence[Claim], kept: Sequence[Claim]) -> list[Claim]:
    # By resource, for keys may have different limits: a claim on another one keeps its own.
    limits = {claim.resource: claim.limit for claim in own}
    return [replace(claim, limit=limits.get(claim.resource, claim.limit)) for claim in kept]


def _is_too_heavy(claim: Claim, *, asked_again: bool) -> bool:
    """Return whether it is above the limit, which was lowered together with the weight.

    A limit of 0 that a callable gave is one of this moment, but for a resource about which it is asked no more.
    """
    if claim.limit is None or (claim.limit == 0 and asked_again):
        return False
    return claim.weight > claim.limit
