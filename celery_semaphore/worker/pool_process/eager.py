"""Limit eager tasks as all others; they block for their permit, for a bounded time.

An eager run may be inside the body of a task that holds the same resource (semaphore and key), in the same thread. It
runs under that permit: the outer body is blocked meanwhile, so both count as one. Only what no outer run holds is
acquired. If an outer permit is lost, the inner run goes on like the outer one; ``self.permit.check()`` notices it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import inf

from ...core.asker import asker_of
from ...core.blocking_waiter import BlockingWaiter
from ...core.claim import Claim
from ...core.event_loop import is_in_event_loop
from ...core.permit import Permit
from ...core.refusal import Reason, Refusal
from ...core.wait_policy import OnSaturated, WaitPolicy
from ...errors import SemaphoreError, SemaphoreSaturated, SemaphoreTimeout, StoreUnavailable
from ...task.protocols import BoundTask
from ..limiter import Limiter
from ..messages.header_names import PENDING_RELEASE
from .eager_holder import EagerHolder
from .outer_permits import outer_permits, uncovered, weights_of
from .refusal import refusal_of, tell_saturated

LONGEST_PAUSE_S = 1.0  # between two attempts, as no worker may be there that ends what is overdue


def acquire_here(
    task: BoundTask, limiter: Limiter, claims: Sequence[Claim], policy: WaitPolicy
) -> tuple[Permit | None, tuple[Permit, ...]]:
    """Return the permit that was acquired, if one was needed, and the permits of outer runs that cover the rest.

    Block until there is a permit; raise ``SemaphoreTimeout``, or what the policy says.
    """
    store = limiter.process.store
    outer = outer_permits(store, claims)
    missing = uncovered(claims, outer)
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
        holder.keep(permit, since)
    except BaseException as error:
        waiter.give_up()
        if isinstance(error, SemaphoreTimeout):
            msg = f"{error} (an eager task: semaphore_eager_timeout, or its wait_timeout)"
            raise SemaphoreTimeout(msg) from None
        raise
    finally:
        asker_of(store).end_if_idle()
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
        tell_saturated(task, task.request.id, answer)
        raise refusal_of(task, task.request.id, answer, claims, policy)
    if waits and is_in_event_loop():
        msg = (
            f"task {task.name}: semaphore {answer.claim.semaphore!r} is saturated, and an eager run that waits here"
            " stops the asyncio loop of this thread. Call it in a thread, `await loop.run_in_executor(executor,"
            " task.apply)`, or let it ask once: semaphore_eager_timeout = 0."
        )
        raise SemaphoreError(msg)


def _refuse_waiting_for_itself(task: BoundTask, refusal: Refusal, outer: Sequence[Permit]) -> None:
    """Raise if the claim fits only after an outer run has ended: the outer runs wait for this one."""
    claim = refusal.claim
    held = weights_of(outer)[claim.resource]
    if held and 0 < refusal.limit < held + claim.weight:  # a pause ends some day
        msg = (
            f"task {task.name}: the eager run takes {held + claim.weight} of semaphore"
            f" {claim.semaphore!r}, which has limit {refusal.limit}; the runs that it is part of hold {held} and"
            " wait for it. Lower the weight, or call it after they end."
        )
        raise SemaphoreSaturated(msg)
