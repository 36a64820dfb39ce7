"""Choose the exception that ends an attempt without a permit, by the store's refusal and the task's policy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from shlex import quote

from ...core.formats import NewerFormat
from ...core.permit import Claim, Reason, Refusal
from ...core.saturation import OnSaturated, WaitPolicy, too_heavy
from ...errors import SemaphoreSaturated, SemaphoreTimeout, StoreUnavailable
from ...stores.encoding import brief
from ..messages.headers import Headers
from ..messages.hourly_warnings import HourlyWarnings
from ..protocols import BoundTask
from ..signals import task_saturated
from .refused import Disposition, Failure, Refused, RefusedAttempt, Unasked
from .result import tell_dropped

logger = logging.getLogger(__name__)

_warnings = HourlyWarnings(logger)
UNESTIMATED = " (no estimate yet)"


def refusal_of(
    task: BoundTask, refusal: Refusal, claims: Sequence[Claim], policy: WaitPolicy
) -> Exception:
    """Return the exception to raise for this refusal of these claims."""
    request = task.request
    if refusal.reason in (Reason.COPY, Reason.RUNNING):
        return Refused(_other_delivery(task, refusal, policy))
    task_saturated.send(sender=task, task_id=request.id, refusal=refusal)
    if refusal.reason is Reason.TIMED_OUT:
        paused = "paused, " if refusal.limit == 0 else ""
        msg = f"waited {refusal.waited:.1f} s for a permit of {_where(refusal)}: {paused}{_usage(refusal)}"
        return Failure(refusal.claim.semaphore, refusal.reason).mark(SemaphoreTimeout(msg))
    text = _described(refusal)
    if refusal.reason is Reason.UNSATISFIABLE and policy.waits:
        _warn_too_heavy(task, refusal, text)
    if refusal.reason is Reason.RECOVERING or policy.on_saturated is OnSaturated.REQUEUE:
        # Recovery is a state of the store, not saturation: a task waits for it under any policy.
        return Refused(_requeued(task, refusal, claims, policy, text))
    if policy.on_saturated is OnSaturated.PARK:
        wait = _requeued if _refused_itself(refusal) else _parked
        return Refused(wait(task, refusal, claims, policy, text))
    if policy.on_saturated is OnSaturated.FAIL:
        return Failure(refusal.claim.semaphore, refusal.reason).mark(SemaphoreSaturated(text))
    logger.warning("task %s[%s] dropped: %s", task.name, request.id, text)
    if not request.is_eager:
        tell_dropped(task, text)
    return Refused(
        RefusedAttempt(
            reason=text,
            why=refusal.reason,
            semaphore=refusal.claim.semaphore,
            disposition=Disposition.DROP,
        )
    )


def _warn_too_heavy(task: BoundTask, refusal: Refusal, text: str) -> None:
    name, claim = f"{task.name}[{task.request.id}]", refusal.claim
    _warnings.warn(
        f"{claim.resource} {claim.weight} above {refusal.limit}",
        f"task {name} waits until the limit is raised: {text}. Give it less weight, or put a higher limit in force with"
        f" `celery -A your_app semaphore limit {quote(claim.semaphore)} N`",
    )


def _requeued(
    task: BoundTask, refusal: Refusal, claims: Sequence[Claim], policy: WaitPolicy, text: str
) -> RefusedAttempt:
    delay = min(max(refusal.retry_after, policy.shortest), policy.longest)
    in_line = refusal.ticket is not None and policy.on_saturated is OnSaturated.REQUEUE
    in_line = in_line and not _refused_itself(refusal)
    # The end of a pause, or of a weight above the limit, is unknown.
    unknown = refusal.reason in (Reason.PAUSED, Reason.UNSATISFIABLE)
    estimate = None if unknown else policy.estimate(refusal)
    about = f" about {estimate:.2f} s" if estimate is not None else "" if unknown else UNESTIMATED
    logger.info("task %s[%s] waits%s: %s", task.name, task.request.id, about, text)
    return RefusedAttempt(
        reason=text,
        why=refusal.reason,
        semaphore=refusal.claim.semaphore,
        disposition=Disposition.HOLD_IN_LINE if in_line else Disposition.HOLD,
        delay=delay,
        ticket=refusal.ticket,
        claims=brief(claims) if in_line else (),
        left=_left(refusal, policy),
    )


def _parked(
    task: BoundTask, refusal: Refusal, claims: Sequence[Claim], policy: WaitPolicy, text: str
) -> RefusedAttempt:
    logger.info("task %s[%s] is parked: %s", task.name, task.request.id, text)
    return RefusedAttempt(
        reason=text,
        why=refusal.reason,
        semaphore=refusal.claim.semaphore,
        # The store cannot take a message without a ticket, which names no wait: it is held.
        disposition=Disposition.HOLD if refusal.ticket is None else Disposition.PARK,
        delay=refusal.retry_after,
        ticket=refusal.ticket,
        claims=brief(claims),
        left=_left(refusal, policy),
    )


def _other_delivery(task: BoundTask, refusal: Refusal, policy: WaitPolicy) -> RefusedAttempt:
    """Return the attempt of a task that has, or had, a permit by another delivery of it."""
    where = f"{task.name}[{task.request.id}]"
    dropped = RefusedAttempt(
        reason=refusal.reason,
        why=refusal.reason,
        semaphore=refusal.claim.semaphore,
        disposition=Disposition.DROP,
    )
    if refusal.reason is Reason.COPY:
        logger.info("task %s is not run twice: this is a copy", where)
        return dropped
    logger.info("task %s waits: it may be running already", where)
    return replace(
        dropped,
        disposition=Disposition.HOLD,
        delay=min(max(refusal.retry_after, policy.shortest), policy.longest),
    )


def _refused_itself(refusal: Refusal) -> bool:
    """Return whether a callable gave the limit 0 (C1): then the task stands in no line, but asks the callable again."""
    return refusal.claim.limit == 0


def _left(refusal: Refusal, policy: WaitPolicy) -> float | None:
    """Return the seconds that are left of the ``wait_timeout``; None without one."""
    return None if policy.timeout is None else policy.timeout - refusal.waited


def _described(refusal: Refusal) -> str:
    usage = f"{_usage(refusal)}, {refusal.position} waiting before it"
    if _refused_itself(refusal):
        usage = f"the task's own limit is 0 now, {usage}"
    elif refusal.reason is Reason.UNSATISFIABLE:
        usage = too_heavy(refusal)
    return f"{_where(refusal)} is {refusal.reason}: {usage}"


def _where(refusal: Refusal) -> str:
    claim = refusal.claim
    return f"semaphore {claim.semaphore!r}" + ("" if claim.key is None else " at its key")


def _usage(refusal: Refusal) -> str:
    return f"{refusal.occupied} of {refusal.limit} in use"


def unreadable(
    task: BoundTask, headers: Headers, policy: WaitPolicy, error: NewerFormat
) -> Refused:
    """Return the refusal of a task that only a newer worker can run.

    It goes round until there is one, each time more slowly: no worker knows whether a rolling upgrade goes on.
    """
    delay, text = policy.unanswered(max(headers.number - 1, 0)), "its message cannot be read"
    said = f"task {task.name}[{task.request.id}] waits {delay:.1f} s: {text}: {error.reason}"
    _warnings.warn(f"format {error.found}", said)
    return _not_asked(headers, Unasked.NEWER_FORMAT, text, delay, answer_known=True)


def unanswered(
    task: BoundTask,
    headers: Headers,
    policy: WaitPolicy,
    error: StoreUnavailable,
    *,
    answer_known: bool,
    level: int = logging.WARNING,
) -> Refused:
    """Return the refusal of a task that must wait because the store did not answer."""
    delay, name = policy.unanswered(), f"{task.name}[{task.request.id}]"
    text = "the store cannot be asked"
    logger.log(level, "task %s waits %.1f s: %s: %s", name, delay, text, error.reason)
    newer = isinstance(error, NewerFormat) or isinstance(error.__cause__, NewerFormat)
    why = Unasked.NEWER_FORMAT if newer else Unasked.UNREACHABLE
    return _not_asked(headers, why, text, delay, answer_known=answer_known)


def _not_asked(
    headers: Headers, why: Unasked, text: str, delay: float, *, answer_known: bool
) -> Refused:
    newer = why is Unasked.NEWER_FORMAT
    attempt = RefusedAttempt(
        reason=text,
        why=why,
        disposition=Disposition.PUBLISH if newer else Disposition.HOLD,
        delay=delay,
        ticket=headers.ticket,
        answer_known=answer_known,
    )
    return Refused(attempt)
