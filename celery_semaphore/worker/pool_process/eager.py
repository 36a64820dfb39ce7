"""Limit eager tasks as all others; they block for their permit, for a bounded time.

An eager run may be inside the body of a task that holds the same resource (semaphore and key), in the same thread. It
runs under that permit: the outer body is blocked meanwhile, so both count as one. Only what no outer run holds is
acquired. If an outer permit is lost, the inner run goes on like the outer one; ``self.permit.check()`` notices it.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from ...core.event_loop import is_in_event_loop
from ...core.events import Announcer, Event, PermitLost, PermitRestored
from ...core.lease import LeaseKeeper
from ...core.permit import Claim, Kind, Permit, Reason, Refusal, Wait
from ...core.saturation import OnSaturated, WaitPolicy
from ...core.store import Outgoing, Store
from ...errors import SemaphoreError, SemaphoreSaturated, SemaphoreTimeout, StoreUnavailable
from ..celery_internals import running_tasks
from ..limiter import Limiter
from ..messages.headers import PENDING_RELEASE
from ..protocols import BoundTask, TaskContext
from .permit import permit_of
from .refusal import refusal_of

logger = logging.getLogger(__name__)

LONGEST_DELAY_S = 1.0  # between two attempts


class EagerHolder:
    """Renews the permit of one eager run, and releases it at the end.

    The keeper's thread ends with the run: a thread that stayed would be a leak to tests that look for one.
    """

    def __init__(
        self,
        task_id: str,
        claims: Sequence[Claim],
        store: Store,
        handed_on: Callable[[Outgoing], None],
    ) -> None:
        self.name = f"{task_id}:{os.urandom(8).hex()}"
        self.claims = claims
        self.store = store
        self._handed_on = handed_on
        announce = Announcer()
        announce.subscribe(_log)
        self._keeper = LeaseKeeper(store, announce, handed_on)

    def keep(self, permit: Permit, since: float) -> None:
        """Renew the permit from now on."""
        self._keeper.add(permit, since)
        self._keeper.start()

    def end(self) -> None:
        """Release what the store may have granted, and end the thread."""
        self._keeper.discard(self.name)
        try:
            self._handed_on(self.store.release(self.name, self.claims))
        except StoreUnavailable as error:
            logger.warning("%s was not released, its lease ends: %s", self.name, error)
        finally:
            self._keeper.stop()


def acquire_here(
    task: BoundTask, limiter: Limiter, claims: Sequence[Claim], policy: WaitPolicy
) -> tuple[Permit | None, tuple[Permit, ...]]:
    """Return the permit that was acquired, if one was needed, and the permits of outer runs that cover the rest.

    Block until there is a permit; raise ``SemaphoreTimeout``, or what the policy says.
    """
    store = limiter.process.store
    outer = _outer_permits(store, claims)
    missing = _missing(claims, outer)
    if not missing:
        return None, outer
    holder = EagerHolder(task.request.id, missing, store, limiter.handed_on)
    task.request.__dict__[PENDING_RELEASE] = holder  # before acquire, as its answer may be lost
    bound = min(limiter.settings.eager_timeout, policy.timeout or float("inf"))
    return _wait(task, holder, outer, policy, bound), outer


def _wait(
    task: BoundTask, holder: EagerHolder, outer: Sequence[Permit], policy: WaitPolicy, bound: float
) -> Permit:
    deadline, ticket = time.monotonic() + bound, None
    while True:
        since = time.monotonic()
        wait = Wait(Kind.REQUEUE, ticket, 0, policy.shortest, LONGEST_DELAY_S)
        answer = holder.store.acquire(holder.claims, holder.name, wait)
        if isinstance(answer, Permit):
            holder.keep(answer, since)
            return answer
        _refuse_waiting_for_itself(task, answer, outer)
        waits = policy.on_saturated in (OnSaturated.REQUEUE, OnSaturated.PARK)
        if not waits and answer.reason is not Reason.RECOVERING:
            raise refusal_of(task, answer, holder.claims, policy)
        _sleep(task, answer, deadline, bound)
        ticket = answer.ticket


def _outer_permits(store: Store, claims: Sequence[Claim]) -> tuple[Permit, ...]:
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


def _weights(permits: Sequence[Permit]) -> Counter[str]:
    held = Counter[str]()
    for permit in permits:
        for claim in permit.claims:
            held[claim.resource] += claim.weight
    return held


def _missing(claims: Sequence[Claim], outer: Sequence[Permit]) -> tuple[Claim, ...]:
    held = _weights(outer)
    return tuple(
        replace(claim, weight=claim.weight - held[claim.resource])
        for claim in claims
        if claim.weight > held[claim.resource]
    )


def _refuse_waiting_for_itself(task: BoundTask, refusal: Refusal, outer: Sequence[Permit]) -> None:
    """Raise if the claim fits only after an outer run has ended: the outer runs wait for this one."""
    claim = refusal.claim
    held = _weights(outer)[claim.resource]
    if held and held + claim.weight > refusal.limit:
        msg = (
            f"task {task.name}: the eager run takes {held + claim.weight} of semaphore"
            f" {claim.semaphore!r}, which has limit {refusal.limit}; the runs that it is part of hold {held} and"
            " wait for it. Lower the weight, or call it after they end."
        )
        raise SemaphoreSaturated(msg)


def _sleep(task: BoundTask, refusal: Refusal, deadline: float, bound: float) -> None:
    left = deadline - time.monotonic()
    if left <= 0:
        msg = (
            f"semaphore {refusal.claim.semaphore!r}: no permit for an eager task in {bound:.1f} s,"
            f" {refusal.occupied} of {refusal.limit} in use (semaphore_eager_timeout)"
        )
        raise SemaphoreTimeout(msg)
    if is_in_event_loop():
        msg = (
            f"task {task.name}: semaphore {refusal.claim.semaphore!r} is saturated, and an eager run that waits here"
            " stops the asyncio loop of this thread. Call it in a thread, `await loop.run_in_executor(executor,"
            " task.apply)`, or let it ask once: semaphore_eager_timeout = 0."
        )
        raise SemaphoreError(msg)
    time.sleep(min(refusal.retry_after, left))


def _log(event: Event) -> None:
    match event:
        case PermitLost(permit, reason):
            logger.error("%s lost its permit: %s", permit.holder, reason)
        case PermitRestored(permit):
            logger.warning("%s: the store forgot its permit and took it back", permit.holder)
