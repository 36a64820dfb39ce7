"""Acquire the permit of a task, in the process that will run it, before Celery begins the run.

The order makes it safe: note to the main process what will be acquired; acquire it; note the permit; run the body.
So the main process knows what to release, wherever this process dies.

``tracer.py`` acquires before Celery's tracer. A task that comes another way, such as an eager one, acquires in
``before_start``, so that none is unlimited silently.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from ...core.claim import Claim, OtherClaims
from ...core.events import PermitAcquiredEvent
from ...core.formats import NewerFormat, check_format
from ...core.permit import Permit
from ...core.refusal import Answer, Refusal
from ...core.wait import Wait
from ...core.wait_policy import WaitPolicy
from ...errors import SemaphoreError, StoreUnavailable
from ...task.call_options import refuse_misspelt
from ...task.protocols import BoundTask, TaskContext
from ...task.request_permit import PERMIT
from ...task.signals import permit_acquired
from ..limiter import Limiter, limiter_of
from ..messages.header_names import FANOUT, OUTCOME, PENDING_RELEASE
from ..messages.headers import Headers
from .acquired import Acquired, seconds_waited
from .eager import acquire_here
from .kept_claims import instead
from .pending_release import PendingRelease
from .permit import TaskPermit, permit_of
from .postrun import watch_ends
from .refusal import refusal_of, tell_saturated, unanswered, unreadable
from .refused_attempt import Refused
from .result import tell_started, tell_waiting
from .tracing import put_on_span

logger = logging.getLogger(__name__)


def begin(task: BoundTask, args: Any, kwargs: Any) -> None:
    """Acquire the permit, unless the tracer has tried to; announce it, or raise the error of the acquire."""
    if not isinstance(task.request.__dict__.get(OUTCOME), Exception):
        acquire_permit(task, args, kwargs)
    _begin(task)


def _begin(task: BoundTask) -> None:
    """Announce the permit, or raise the error of the acquire; once, as a subclass may call ``before_start`` twice."""
    request = task.request
    outcome = request.__dict__.pop(OUTCOME, None)
    if isinstance(outcome, Exception):
        raise outcome
    if isinstance(outcome, Acquired):
        if not task.request.is_eager:  # it has waited inside its span
            put_on_span(outcome)
        permit_acquired.send(sender=task, task_id=request.id, permit=outcome.permit)


def acquire_permit(task: BoundTask, args: Any, kwargs: Any) -> None:
    """Acquire a permit, or raise the exception that ends this attempt."""
    request = task.request
    if request.called_directly or permit_of(request) is not None:
        return
    _refuse_headers(task, request)
    options, limiter = task.semaphore_options, limiter_of(task.app)
    headers = Headers.taken_from(request, limiter.settings.copies_expire)
    claims = options.claims(args, kwargs, headers.key, headers.weight)
    policy = options.policy(limiter.settings)
    if request.is_eager:
        watch_ends()
        permit, outer = acquire_here(task, limiter, claims, policy)
    else:
        policy = policy.settled(parks=headers.parks)
        permit, outer = _acquire_kept(task, limiter, claims, headers, policy), ()
        if headers.ticket and limiter.settings.track_waiting:
            tell_started(task)
    permits = outer if permit is None else (permit, *outer)
    request.__dict__[PERMIT] = TaskPermit(permits, limiter.process.store)
    if permit is not None:
        request.__dict__[OUTCOME] = Acquired.by(permit, headers.ticket, headers.refusals)


def _refuse_headers(task: BoundTask, request: TaskContext) -> None:
    try:
        refuse_misspelt([*request.__dict__, *(request.headers or ())])
    except SemaphoreError as error:
        msg = f"task {task.name}: {error}"
        raise SemaphoreError(msg) from None
    if (exchange := request.__dict__.get(FANOUT)) is not None:
        msg = (
            f"task {task.name} came through the fanout exchange {exchange!r}: a limited task cannot, because this broker keeps"
            " no queue to which its message could go back when it must wait. Send it to a queue for each worker, or"
            " send an unlimited task this way, which sends the limited one."
        )
        raise SemaphoreError(msg)


def _acquire(
    task: BoundTask,
    limiter: Limiter,
    claims: Sequence[Claim],
    headers: Headers,
    policy: WaitPolicy,
    *,
    ends: OtherClaims | None,
) -> Permit:
    if headers.holder is None:
        msg = f"task {task.name} came by a Request class without LimitedRequest: {task.Request!r}"
        raise SemaphoreError(msg)
    if not limiter.serves:
        msg = (
            f"task {task.name} was registered after its worker had started without any limited task: that worker"
            " does not renew or release permits. Register the task before the worker starts, or restart the worker."
        )
        raise SemaphoreError(msg)
    try:
        check_format("its header", headers.format)
    except NewerFormat as error:
        raise unreadable(task, headers, policy, error) from None
    process, observer = limiter.process, limiter.observer()
    if process.store.epoch is None:
        process.store.epoch = headers.epoch
    try:
        process.breaker.check()
    except StoreUnavailable as error:
        # Its failure a moment ago is a warning: not one for each task that waits.
        raise unanswered(
            task, headers, policy, error, answer_known=True, level=logging.INFO
        ) from None
    pending = PendingRelease(headers.holder, claims, headers.message_id)
    task.request.__dict__[PENDING_RELEASE] = pending
    observer.asked(headers.holder, claims)
    since = time.monotonic()
    answer = _answered(task, limiter, claims, headers, policy, ends=ends)
    if isinstance(answer, Refusal):
        raise _sent_away(task, limiter, answer, claims, policy, keeps=headers.keeps)
    took, waited = time.monotonic() - since, seconds_waited(answer, headers.ticket)
    observer.held(PermitAcquiredEvent(answer, task.name, waited, took), since)
    _tell_end_of_wait(task, headers, claims, waited)
    if limiter.notes is not None and not task.acks_late:
        limiter.waker.wake()  # its message is to be acknowledged now
    return answer


def _acquire_kept(
    task: BoundTask, limiter: Limiter, own: Sequence[Claim], headers: Headers, policy: WaitPolicy
) -> Permit:
    """Acquire; if the task waits with other claims, note these instead, and acquire them, or end that wait (A19)."""
    claims, ends = own, None
    while True:
        try:
            return _acquire(task, limiter, claims, headers, policy, ends=ends)
        except OtherClaims as others:
            claims, ends = instead(own, others)


def _tell_end_of_wait(
    task: BoundTask, headers: Headers, claims: Sequence[Claim], waited: float
) -> None:
    if headers.ticket is None:  # it did not wait
        return
    name, of = f"{task.name}[{task.request.id}]", ", ".join(repr(each.semaphore) for each in claims)
    logger.info("task %s got its permit of %s after %.1f s", name, of, waited)


def _answered(
    task: BoundTask,
    limiter: Limiter,
    claims: Sequence[Claim],
    headers: Headers,
    policy: WaitPolicy,
    *,
    ends: OtherClaims | None,
) -> Answer:
    """End that wait, acquire from the store, and note in the breaker whether the store answered."""
    process, holder = limiter.process, str(headers.holder)
    try:
        wait = wait_of(limiter, headers, policy)
        if ends is not None:  # what it hands on is found by the next question, or sweep
            process.store.release(ends.ticket, ends.claims)
        answer = process.store.acquire(claims, holder, wait, headers.message_id)
    except StoreUnavailable as error:
        process.breaker.failed(error)
        if isinstance(error, NewerFormat):  # A1: nothing was acquired
            del task.request.__dict__[PENDING_RELEASE]
            raise unanswered(task, headers, policy, error, answer_known=True) from None
        # The task will not run, even if a permit was granted. Release without the message's id: the message that is
        # put back must not be taken for a copy.
        task.request.__dict__[PENDING_RELEASE] = PendingRelease(holder, claims)
        raise unanswered(task, headers, policy, error, answer_known=False) from None
    except SemaphoreError:  # the store answered: an error of this task alone, which fails it
        process.breaker.succeeded()
        raise
    process.breaker.succeeded()
    return answer


def wait_of(limiter: Limiter, headers: Headers, policy: WaitPolicy) -> Wait | None:
    """Return how a delivery with these headers would wait; None if it would not."""
    priority = headers.priority(
        low_is_urgent=limiter.low_is_urgent, default=limiter.default_priority
    )
    return policy.wait(headers.ticket, priority, headers.session, limiter.redelivered_after)


def _sent_away(
    task: BoundTask,
    limiter: Limiter,
    refusal: Refusal,
    claims: Sequence[Claim],
    policy: WaitPolicy,
    *,
    keeps: bool,
) -> Exception:
    """Return the exception by which the main process learns of the refusal: see ``LimitedRequest.on_failure``."""
    del task.request.__dict__[PENDING_RELEASE]
    tell_saturated(task, task.request.id, refusal)
    why = refusal_of(task, task.request.id, refusal, claims, policy, keeps=keeps)
    if limiter.settings.track_waiting and isinstance(why, Refused):
        tell_waiting(task, refusal)
    return why
