"""Limit eager tasks as all others; they block for their permit, for a bounded time.

An eager run may be inside the body of a task that holds the same resource (semaphore and key), in the same thread. It
runs under that permit: the outer body is blocked meanwhile, so both count as one. Only what no outer run holds is
acquired. If an outer permit is lost, the inner run goes on like the outer one; ``self.permit.check()`` notices it.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from ...core.asker import asker_of
from ...core.blocking_waiter import BlockingWaiter
from ...core.event_loop import is_in_event_loop
from ...core.events import Announcer, Event, PermitLostEvent, PermitRestoredEvent
from ...core.lease import LeaseKeeper
from ...core.permit import Claim, Permit, Reason, Refusal
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

LONGEST_PAUSE_S = 1.0  # between two attempts, as no worker may be there that ends what is overdue


class EagerHolder:
    """Renews the permit of one eager run, and releases it at the end.

    The keeper's thread ends with the run: a thread that stayed would be a leak to tests that look for one.
    """

    def __init__(
        self,
        task: BoundTask,
        claims: Sequence[Claim],
        store: Store,
        handed_on: Callable[[Outgoing], None],
    ) -> None:
        task_id = task.request.id
        self.name = f"{task_id}:{os.urandom(8).hex()}"
        self.claims = claims
        self.store = store
        self._handed_on = handed_on
        announce = Announcer()
        announce.subscribe(partial(_log, f"task {task.name}[{task_id}]"))
        self._keeper = LeaseKeeper(store, announce, lambda: handed_on(store.reap()))

    def keep(self, permit: Permit, since: float) -> None:
        """Renew the permit from now on."""
        self.name = permit.holder
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
    holder = EagerHolder(task, missing, store, limiter.handed_on)
    task.request.__dict__[PENDING_RELEASE] = holder  # before acquire, as its answer may be lost
    bound = min(limiter.settings.eager_timeout, policy.timeout or inf)
    waiter = BlockingWaiter(
        store,
        missing,
        bound,
        on_answer=partial(_end_wait, task, missing, outer, policy, waits=bound > 0),
        holder=holder.name,
        longest_pause=LONGEST_PAUSE_S,
    )
    try:
        permit, since = waiter.acquire()
    except SemaphoreTimeout as timeout:
        msg = f"{timeout} (an eager task: semaphore_eager_timeout, or its wait_timeout)"
        raise SemaphoreTimeout(msg) from None
    finally:
        asker_of(store).end_if_idle()
    holder.keep(permit, since)
    return permit, outer


def _end_wait(
    task: BoundTask,
    claims: Sequence[Claim],
    outer: Sequence[Permit],
    policy: WaitPolicy,
    answer: Refusal | StoreUnavailable,
    *,
    waits: bool,
) -> None:
    """Raise if the run must not wait after this answer of the store."""
    if isinstance(answer, StoreUnavailable):
        raise answer
    _refuse_waiting_for_itself(task, answer, outer)
    ends = policy.on_saturated in (OnSaturated.DROP, OnSaturated.FAIL)
    if ends and answer.reason is not Reason.RECOVERING:
        raise refusal_of(task, answer, claims, policy)
    if waits and is_in_event_loop():
        msg = (
            f"task {task.name}: semaphore {answer.claim.semaphore!r} is saturated, and an eager run that waits here"
            " stops the asyncio loop of this thread. Call it in a thread, `await loop.run_in_executor(executor,"
            " task.apply)`, or let it ask once: semaphore_eager_timeout = 0."
        )
        raise SemaphoreError(msg)


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


def _log(task: str, event: Event) -> None:
    match event:
        case PermitLostEvent(_, reason):
            logger.error("%s lost its permit: %s", task, reason)
        case PermitRestoredEvent():
            logger.warning("%s: the store forgot its permit and took it back", task)
