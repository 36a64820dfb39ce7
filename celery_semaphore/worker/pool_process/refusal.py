"""Choose the exception that ends an attempt without a permit, by the store's refusal and the task's policy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from shlex import quote

from ...core.claim import Claim
from ...core.formats import NewerFormat
from ...core.refusal import Reason, Refusal
from ...core.wait_policy import WaitPolicy, too_heavy, usage
from ...errors import SemaphoreError, SemaphoreSaturated, SemaphoreTimeout, StoreUnavailable
from ...stores.encoding import brief
from ...task.protocols import BoundTask
from ...task.signals import task_saturated
from ..messages.headers import Headers
from ..messages.hourly_warnings import HourlyWarnings
from .destination import Destination, Unasked, destination
from .refused_attempt import Failure, Refused, RefusedAttempt
from .result import tell_dropped

logger = logging.getLogger(__name__)

_warnings = HourlyWarnings(logger)
UNESTIMATED = " (no estimate yet)"


def refusal_of(
    task: BoundTask,
    task_id: str,
    refusal: Refusal,
    claims: Sequence[Claim],
    policy: WaitPolicy,
    *,
    keeps: bool = False,
) -> Exception:
    """Return the exception to raise for this refusal of these claims; ``keeps`` as for ``destination``."""
    stands = refusal.ticket is not None and not _refused_itself(refusal)
    to = destination(refusal.reason, policy.on_saturated, has_ticket=stands, keeps=keeps)
    if to is Destination.FAILED:
        return Failure(refusal.claim.semaphore, refusal.reason).mark(_error(refusal))
    attempt = RefusedAttempt(
        reason=_told(task, task_id, refusal, policy, to),
        why=refusal.reason,
        semaphore=refusal.claim.semaphore,
        destination=to,
        delay=min(max(refusal.retry_after, policy.shortest), policy.longest),
        ticket=refusal.ticket,
        claims=brief(claims) if refusal.ticket else (),
        left=_left(refusal, policy) if refusal.ticket else None,
    )
    return Refused(attempt)


def tell_saturated(task: BoundTask, task_id: str, refusal: Refusal) -> None:
    """Call the receivers of ``task_saturated``, unless the message is a copy."""
    if refusal.reason not in (Reason.COPY, Reason.RUNNING):
        task_saturated.send(sender=task, task_id=task_id, refusal=refusal)


def _error(refusal: Refusal) -> SemaphoreError:
    if refusal.reason is not Reason.TIMED_OUT:
        return SemaphoreSaturated(_described(refusal))
    paused = "paused, " if refusal.limit == 0 else ""
    msg = (
        f"waited {refusal.waited:.1f} s for a permit of {_where(refusal)}: {paused}{usage(refusal)}"
    )
    return SemaphoreTimeout(msg)


def _told(
    task: BoundTask, task_id: str, refusal: Refusal, policy: WaitPolicy, to: Destination
) -> str:
    """Log what happens to the task, and return why."""
    name, text = f"{task.name}[{task_id}]", _described(refusal)
    if refusal.reason is Reason.COPY:
        logger.info("task %s is not run twice: this is a copy", name)
        return refusal.reason
    if refusal.reason is Reason.RUNNING:
        logger.info("task %s waits: it may be running already", name)
        return refusal.reason
    if refusal.reason is Reason.UNSATISFIABLE and policy.waits:
        _warn_too_heavy(name, refusal, text)
    if to is Destination.PARKED:
        logger.info("task %s is parked: %s", name, text)
    elif to is Destination.DROPPED:
        logger.warning("task %s dropped: %s", name, text)
        if not task.request.is_eager:
            tell_dropped(task, text)
    else:
        logger.info("task %s waits%s: %s", name, _estimated(refusal, policy), text)
    return text


def _estimated(refusal: Refusal, policy: WaitPolicy) -> str:
    """Return when the permit may come; nothing for the end of a pause, or of a weight above the limit."""
    if refusal.reason in (Reason.PAUSED, Reason.UNSATISFIABLE):
        return ""
    estimate = policy.estimate(refusal)
    return UNESTIMATED if estimate is None else f" about {estimate:.2f} s"


def _refused_itself(refusal: Refusal) -> bool:
    """Return whether a callable gave the limit 0 (C1): then the task stands in no line, but asks the callable again."""
    return refusal.claim.limit == 0


def _warn_too_heavy(name: str, refusal: Refusal, text: str) -> None:
    claim = refusal.claim
    _warnings.warn(
        f"{claim.semaphore} {claim.weight} above {refusal.limit}",
        f"task {name} waits until the limit is raised: {text}. Give it less weight, or put a higher limit in force with"
        f" `celery -A your_app semaphore limit {quote(claim.semaphore)} N`",
    )


def _left(refusal: Refusal, policy: WaitPolicy) -> float | None:
    """Return the seconds that are left of the ``wait_timeout``; None without one."""
    return None if policy.timeout is None else policy.timeout - refusal.waited


def _described(refusal: Refusal) -> str:
    why = f"{usage(refusal)}, {refusal.position} waiting before it"
    if _refused_itself(refusal):
        why = f"the task's own limit is 0 now, {why}"
    elif refusal.reason is Reason.UNSATISFIABLE:
        why = too_heavy(refusal)
    return f"{_where(refusal)} is {refusal.reason}: {why}"


def _where(refusal: Refusal) -> str:
    claim = refusal.claim
    return f"semaphore {claim.semaphore!r}" + ("" if claim.key is None else " at its key")


def unreadable(
    task: BoundTask, headers: Headers, policy: WaitPolicy, error: NewerFormat
) -> Refused:
    """Return the refusal of a task that only a newer worker can run.

    It goes round until there is one, each time more slowly: no worker knows whether a rolling upgrade goes on.
    """
    delay, text = policy.unanswered(max(headers.number - 1, 0)), "its message cannot be read"
    said = f"task {task.name}[{task.request.id}] waits {delay:.1f} s: {text}: {error.reason}"
    _warnings.warn(f"format {error.found}", said)
    return _not_asked(headers, policy, Unasked.NEWER_FORMAT, text, delay, answer_known=True)


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
    return _not_asked(headers, policy, why, text, delay, answer_known=answer_known)


def _not_asked(
    headers: Headers,
    policy: WaitPolicy,
    why: Unasked,
    text: str,
    delay: float,
    *,
    answer_known: bool,
) -> Refused:
    to = destination(why, policy.on_saturated, has_ticket=False, keeps=headers.keeps)
    attempt = RefusedAttempt(
        reason=text,
        why=why,
        destination=to,
        delay=delay,
        ticket=headers.ticket,
        answer_known=answer_known,
    )
    return Refused(attempt)
