"""Find the permits of the outer runs of an eager run, and the claims that they do not cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...core.claim import Claim
from ...core.permit import Permit
from ...core.store import Store
from ...task.protocols import TaskContext
from ..celery_internals import running_tasks
from ..messages.header_names import PENDING_RELEASE
from .permit import permit_of


def outer_permits(store: Store, claims: Sequence[Claim]) -> tuple[Permit, ...]:
    """Return the permits of the outer bodies in this thread that cover a part of the claims, innermost first."""
    permits: dict[str, Permit] = {}
    for outer in reversed(running_tasks.stack):
        for request in reversed(outer.request_stack.stack):
            permit = _still_held(request, store)
            if permit is not None:
                permits[permit.holder] = permit
    wanted = {claim.resource for claim in claims}
    return tuple(p for p in permits.values() if wanted & {claim.resource for claim in p.claims})


def _still_held(request: TaskContext, store: Store) -> Permit | None:
    """Return the permit that this run itself acquired and has not released.

    A permit of another app or of a parent process does not count, as it is in another store object: a parent process
    goes on running beside its child.
    """
    held = permit_of(request)
    if held is None or PENDING_RELEASE not in request.__dict__:
        return None
    return held.permits[0] if held.store is store else None


def weights_of(permits: Sequence[Permit]) -> Counter[str]:
    held = Counter[str]()
    for permit in permits:
        for claim in permit.claims:
            held[claim.resource] += claim.weight
    return held


def uncovered(claims: Sequence[Claim], outer: Sequence[Permit]) -> tuple[Claim, ...]:
    held = weights_of(outer)
    return tuple(
        replace(claim, weight=claim.weight - held[claim.resource])
        for claim in claims
        if claim.weight > held[claim.resource]
    )
