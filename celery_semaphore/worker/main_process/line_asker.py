"""LineAsker: put messages in line without a process of the pool, where messages of this worker wait already.

A process that only learns that its task must wait costs more than the answer. So where the last refusals say that
tasks wait, the main process asks the store itself, for all messages that came meanwhile, in one round trip. It never
calls a user's function for that: see ``LimitedRequest.plain_claims``.

How it fails:

* There is a permit after all, since the line has ended. Its release comes first, then a process asks as another holder,
  as for any message. The next messages of the resource go to processes at once.
* No answer, which may have been a permit: the ledger releases it, and a process asks as another holder.
* The worker dies before an answer is handled: the message is not acknowledged, and the broker delivers it again.
* The connection to the broker is lost meanwhile: the broker delivers the message again, so it is left alone.
* Messages of a resource that wait for a process would be overtaken: they are put in line before the new one.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from celery.app.task import Context
from celery.worker import state

from ...core.background_thread import BackgroundThread
from ...core.permit import Answer, Claim, Permit, Reason, Refusal
from ...core.signal_safe_event import SignalSafeEvent
from ...core.store import CALLED, Acquire, HandedOn
from ...core.wait_policy import WaitPolicy
from ...errors import SemaphoreError
from ...task.celery_types import Consumer
from ...task.signals import task_saturated
from ..keeping.pool_line import leaves, requests_in_line
from ..limiter import Limiter
from ..messages.headers import Headers
from ..pool_process.refusal import refusal_of, tell_saturated
from ..pool_process.refused_attempt import Refused
from .request import LimitedRequestMixin

logger = logging.getLogger(__name__)

IDLE_WAIT_S = 60.0  # between two checks; each message sets the event
TOGETHER_S = 0.005  # after the first message: those that come meanwhile are asked for with it
WAITS = (Reason.SATURATED, Reason.PAUSED, Reason.UNSATISFIABLE)

Said = Answer | HandedOn | SemaphoreError


@dataclass(frozen=True, slots=True)
class NewWait:
    """A message that joins a line, and how it asks for its place."""

    request: LimitedRequestMixin
    policy: WaitPolicy
    keeps: bool  # whether the worker keeps the message if its task must wait
    call: Acquire


class LineAsker:
    """Stands between the consumer and the pool of a worker with processes; its thread asks, the loop does all else."""

    def __init__(self, c: Consumer, limiter: Limiter) -> None:
        self._c = c
        self._limiter = limiter
        self._lines = limiter.worker.lines
        self._give_to_pool = c.on_task_request
        c.on_task_request = self.received  # before Celery makes its strategies, which take it
        self._new_waits = deque[NewWait]()
        self._event = SignalSafeEvent()
        self._closing = False
        self._thread = BackgroundThread(
            "celery-semaphore-lines", self._ask_for_all, lambda: self._closing
        )

    # -- the loop

    def received(self, request: object) -> None:
        """Put the message in line, or give it to the pool."""
        new = self._wait_of(request)
        if new is None:
            self._give_to_pool(request)
            return
        for earlier in requests_in_line(self._c):
            if before := self._wait_of(earlier):
                leaves(self._c, earlier)
                self._new_waits.append(before)
        self._new_waits.append(new)
        self._thread.start()
        self._event.set()

    def forget(self) -> None:
        """Forget the messages that were not asked for: the broker delivers them again."""
        self._new_waits.clear()

    def close(self, timeout: float) -> None:
        """End the thread, waiting ``timeout`` seconds at most."""
        self._closing = True
        self._event.set()
        self._thread.join(timeout)

    def _wait_of(self, request: object) -> NewWait | None:
        """Return how this message joins a line; None for one that a process must try."""
        if not (self._lines and isinstance(request, LimitedRequestMixin)):
            return None
        claims = request.plain_claims
        if claims is None or request.waits or not self._lines.include(claims):
            return None
        return _new_wait(request, claims, self._limiter)

    def _refused_all(self, both: Sequence[tuple[NewWait, Refusal]]) -> None:
        for new, refusal in both:
            try:
                self._refused(new, refusal)
            except Exception:
                logger.exception("task %s cannot wait, the broker delivers it", new.request.id)
                self._limiter.process.ledger.ended(new.call.holder)
                new.request.deliver_elsewhere()

    def _refused(self, new: NewWait, refusal: Refusal) -> None:
        """Let the task wait, as if a process had returned it."""
        request, claims, policy = new.request, new.call.claims, new.policy
        why = refusal_of(request.task, request.id, refusal, claims, policy, keeps=new.keeps)
        if not isinstance(why, Refused):
            raise why
        if task_saturated.receivers:
            self._limiter.process.receivers.add(partial(_tell_saturated, request, refusal))
        request.revoked_in_line()  # a wait that has ended meanwhile is ended next
        request.on_refused(why.attempt)

    def _begin(self, request: LimitedRequestMixin) -> None:
        """Let a process ask for the permit, as another holder."""
        state.task_ready(request)
        if not request.may_be_moved():
            return
        fresh = request.again(None)
        state.task_reserved(fresh)
        self._give_to_pool(fresh)

    # -- the thread

    def _ask_for_all(self) -> None:
        self._event.wait(IDLE_WAIT_S)
        time.sleep(TOGETHER_S)
        while some := self._next():
            answers = self._answers(some)
            refused = list[tuple[NewWait, Refusal]]()
            for new, said in zip(some, answers, strict=True):
                if isinstance(said, Refusal) and said.reason in WAITS:
                    refused.append((new, said))
                else:
                    self._try_in_process(new, said)
            if refused:
                self._limiter.in_loop(partial(self._refused_all, refused))

    def _next(self) -> list[NewWait]:
        some = list[NewWait]()
        while len(some) < CALLED:
            try:
                some.append(self._new_waits.popleft())
            except IndexError:  # the loop may have cleared it
                break
        return some

    def _answers(self, some: Sequence[NewWait]) -> Sequence[Said]:
        process = self._limiter.process
        for new in some:
            process.ledger.asked(new.call.holder, new.call.claims)
        try:
            return process.measured.call_all([new.call for new in some])
        except SemaphoreError as error:
            return [error] * len(some)
        except Exception as error:
            logger.exception("the store could not be asked for the places of waiting tasks")
            return [SemaphoreError(repr(error))] * len(some)

    def _try_in_process(self, new: NewWait, said: Said) -> None:
        """Release what the store may have granted, and give the message to the pool."""
        holder, ended = new.call.holder, self._limiter.process.ledger.ended
        self._lines.forget(new.call.claims)
        begin = partial(self._limiter.in_loop, partial(self._begin, new.request))
        if isinstance(said, Permit):
            # Not before its release: the store would take the next holder for another run of the same task.
            ended(holder, then=begin)
        else:
            ended(holder)
            begin()


def _new_wait(
    request: LimitedRequestMixin, claims: tuple[Claim, ...], limiter: Limiter
) -> NewWait | None:
    """Return how a call with these claims asks for a place; None if it does not wait."""
    settings = limiter.settings
    headers = Headers.taken_from(Context(request.request_dict), settings.copies_expire)
    policy = request.task.semaphore_options.policy(settings).settled(parks=headers.parks)
    priority = headers.priority(
        low_is_urgent=limiter.low_is_urgent, default=limiter.default_priority
    )
    wait = policy.wait(None, priority, headers.session, limiter.redelivered_after)
    if wait is None:
        return None
    call = Acquire(claims, request.holder, wait, headers.message_id)
    return NewWait(request, policy, headers.keeps, call)


def _tell_saturated(request: LimitedRequestMixin, refusal: Refusal) -> None:
    """Call the receivers, which find in ``sender.request`` what a process would show them."""
    task, stack = request.task, request.task.request_stack
    stack.push(Context(request.request_dict, args=request.args, kwargs=request.kwargs))
    try:
        tell_saturated(task, request.id, refusal)
    finally:
        stack.pop()
