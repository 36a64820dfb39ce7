"""Refused: the exception by which a pool process returns a task without a permit to the worker's main process."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from celery.exceptions import Ignore

from ...core.permit import Reason, Refusal
from ...core.saturation import OnSaturated, WaitPolicy
from ...core.ticket import Ticket
from ...errors import SemaphoreSaturated, SemaphoreTimeout
from ..signals import task_saturated
from .result import tell_dropped

logger = logging.getLogger(__name__)


class Refused(Ignore):  # type: ignore[misc]
    """The task has no permit: its message must wait, or be dropped."""

    def __init__(
        self,
        reason: str,
        *,
        delay: float | None,
        ticket: Ticket | None = None,
        answer_known: bool = True,
        parks: bool = False,
        left: float | None = None,
        elsewhere: bool = False,
        in_line: bool = False,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delay = delay  # seconds until the message must come back; None drops it
        self.ticket = ticket
        self.answer_known = answer_known  # False if an acquire got no answer: it may have a permit
        self.parks = parks  # the message in the store, or in its queue if the store cannot take it
        self.left = left  # seconds of its wait_timeout
        self.elsewhere = elsewhere  # only a worker of a newer release can run it: not held here, P6
        self.in_line = in_line  # whether its session learns when the task is granted a permit

    def __reduce__(self) -> tuple[Any, ...]:
        names = ("delay", "ticket", "answer_known", "parks", "left", "elsewhere", "in_line")
        fields = {name: getattr(self, name) for name in names}
        return partial(Refused, self.reason, **fields), ()


def refusal_of(task: Any, refusal: Refusal, policy: WaitPolicy) -> Exception:
    """Return the exception to raise for this refusal."""
    request = task.request
    if refusal.reason in (Reason.COPY, Reason.RUNNING):
        return _other_message(task, refusal, policy)
    task_saturated.send(sender=task, task_id=request.id, refusal=refusal)
    if refusal.reason is Reason.TIMED_OUT:
        where, usage = _where(refusal), _usage(refusal)
        return SemaphoreTimeout(f"waited {refusal.waited:.1f} s for a permit of {where}: {usage}")
    text = _described(refusal)
    left = None if policy.timeout is None else policy.timeout - refusal.waited
    if refusal.reason is Reason.RECOVERING or policy.on_saturated is OnSaturated.REQUEUE:
        # Recovery is a state of the store, not saturation: a task waits for it under any policy.
        delay = min(max(refusal.retry_after, policy.shortest), policy.longest)
        in_line = refusal.ticket is not None and policy.on_saturated is OnSaturated.REQUEUE
        # The end of a pause, or of a weight above the limit, is unknown.
        unknown = refusal.reason in (Reason.PAUSED, Reason.UNSATISFIABLE)
        about = "" if unknown else f" about {delay:.2f} s"
        logger.info("task %s[%s] waits%s: %s", task.name, request.id, about, text)
        return Refused(text, delay=delay, ticket=refusal.ticket, left=left, in_line=in_line)
    if policy.on_saturated is OnSaturated.PARK:
        logger.info("task %s[%s] is parked: %s", task.name, request.id, text)
        delay, ticket = refusal.retry_after, refusal.ticket
        return Refused(text, delay=delay, ticket=ticket, parks=True, left=left)
    if policy.on_saturated is OnSaturated.FAIL:
        return SemaphoreSaturated(text)
    logger.warning("task %s[%s] dropped: %s", task.name, request.id, text)
    if not request.is_eager:
        tell_dropped(task, text)
    return Refused(text, delay=None)


def _other_message(task: Any, refusal: Refusal, policy: WaitPolicy) -> Refused:
    """Return the exception for a task that has, or had, a permit by another of its messages."""
    where = f"{task.name}[{task.request.id}]"
    if refusal.reason is Reason.COPY:
        logger.info("task %s is not run twice: this is a copy", where)
        return Refused(refusal.reason, delay=None)
    logger.info("task %s waits: another message of it may be running", where)
    delay = min(max(refusal.retry_after, policy.shortest), policy.longest)
    return Refused(refusal.reason, delay=delay, ticket=refusal.ticket)


def _described(refusal: Refusal) -> str:
    return (
        f"{_where(refusal)} is {refusal.reason}: {_usage(refusal)},"
        f" {refusal.position} waiting before it"
    )


def _where(refusal: Refusal) -> str:
    claim = refusal.claim
    return f"semaphore {claim.semaphore!r}" + ("" if claim.key is None else " at its key")


def _usage(refusal: Refusal) -> str:
    return f"{refusal.occupied} of {refusal.limit} in use"
