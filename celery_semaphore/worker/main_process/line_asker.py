"""LineAsker: put messages in line without a process of the pool, where messages of this worker wait already.

A process that only learns that its task must wait costs more than the answer. So where the last refusals say that
tasks wait, the main process asks the store itself, for all messages that came meanwhile, in one round trip. It never
calls a user's function for that: see ``LimitedRequest.plain_claims``.

How it fails:

* There is a permit after all, since the line has ended. Its release comes first, then a process asks as another holder,
  as for any message, and for those that were asked for after it. The next messages go to processes at once.
* No answer, which may have been a permit: the ledger releases it, and a process asks as another holder.
* The worker dies before an answer is handled: the message is not acknowledged, and the broker delivers it again.
* The connection to the broker is lost meanwhile: the broker delivers the message again, so it is left alone.
* Earlier messages wait for a process, and would be overtaken: they are put in line before this one. If a process must
  try one of them, this one waits for a process, too. For those that processes try just then the thread waits a moment.
* A message cannot be read, or the policy of its task: a process fails the task, as no error may leave the loop.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from weakref import ReferenceType, ref

from celery.app.task import Context
from celery.worker import state

from ...core.background_thread import BackgroundThread
from ...core.claim import Claim
from ...core.permit import Permit
from ...core.refusal import Answer, Reason, Refusal
from ...core.signal_safe_event import SignalSafeEvent
from ...core.store import CALLED, Acquire, HandedOn
from ...core.wait_policy import WaitPolicy
from ...errors import SemaphoreError, StoreUnavailable
from ...task.celery_types import Consumer
from ...task.signals import task_saturated
from ..keeping.pool_line import leaves, requests_in_line
from ..limiter import Limiter
from ..messages.headers import Headers
from ..pool_process.gate import wait_of
from ..pool_process.refusal import refusal_of, tell_saturated
from ..pool_process.refused_attempt import Refused
from .request import LimitedRequestMixin

logger = logging.getLogger(__name__)

IDLE_WAIT_S = 60.0  # between two checks; each message sets the event
TOGETHER_S = 0.005  # after the first message: those that come meanwhile are asked for with it
TRIED_S = 0.1  # the longest that a batch waits for messages which processes try
MOST_BEFORE = 100  # requests that wait for a process: with more this one does, too, instead of looking at each
WAITS = (Reason.SATURATED, Reason.PAUSED, Reason.UNSATISFIABLE)

Said = Answer | HandedOn | SemaphoreError


@dataclass(frozen=True, slots=True)
class NewWait:
    """A message that joins a line, and how it asks for its place."""

    request: LimitedRequestMixin
    policy: WaitPolicy
    keeps: bool  # whether the worker keeps the message if its task must wait
    call: Acquire
    behind: list[LimitedRequestMixin] = field(default_factory=list)  # that processes try


class LineAsker:
    """Stands between the consumer and the pool of a worker with processes; its thread asks, the loop does all else."""

    def __init__(self, c: Consumer, limiter: Limiter) -> None:
        self._c = c
        self._limiter = limiter
        self._lines = limiter.worker.lines
        self._give_to_pool = c.on_task_request
        c.on_task_request = self.received  # before Celery makes its strategies, which take it
        self._new_waits = deque[NewWait]()
        self._tried = deque[ReferenceType[LimitedRequestMixin]](maxlen=MOST_BEFORE)
        self._event = SignalSafeEvent()
        self._closing = False
        self._thread = BackgroundThread(
            "celery-semaphore-lines", self._ask_for_all, lambda: self._closing
        )

    # -- the loop

    def received(self, request: object) -> None:
        """Put the message in line, or give it to the pool."""
        new = self._wait_of(request)
        before = None if new is None else self._before(new)
        if new is None or before is None:
            self._try(request)
            return
        for earlier in before:
            leaves(self._c, earlier.request)
        self._wait_behind_tried(new, [earlier.request for earlier in before])
        self._new_waits.extend([*before, new])
        self._event.set()

    def _try(self, request: object) -> None:
        if isinstance(request, LimitedRequestMixin) and not request.waits:
            self._tried.append(ref(request))
        self._give_to_pool(request)

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
        if not (isinstance(request, LimitedRequestMixin) and (claims := self._joining(request))):
            return None
        try:
            self._thread.start()
            return _new_wait(request, claims, self._limiter)
        except Exception:
            logger.debug("a process tries task %s", request.id, exc_info=True)
            return None

    def _joining(self, request: LimitedRequestMixin) -> tuple[Claim, ...] | None:
        """Return the claims of a message that joins a known line, if it can be read."""
        if not self._lines or request.waits or request.by_granted_queue or request.needs_process:
            return None
        claims = request.plain_claims
        return claims if claims and self._lines.include(claims) else None

    def _before(self, new: NewWait) -> list[NewWait] | None:
        """Return those of its line that wait for a process; None if this one must stay behind them."""
        line = requests_in_line(self._c)
        if len(line) > MOST_BEFORE:
            return None
        earlier = [request for request in line if _may_want_the_same(request, new)]
        if not all(map(self._joining, earlier)):  # before the work for each of them
            return None
        found = [before for request in earlier if (before := self._wait_of(request))]
        return found if len(found) == len(earlier) else None

    def _wait_behind_tried(self, new: NewWait, taken: Sequence[LimitedRequestMixin]) -> None:
        """Let it wait for those of its line that processes try, which are not those that are taken along."""
        found = [request for each in self._tried if (request := each()) is not None]
        tried = [each for each in found if self._is_tried(each) and each not in taken]
        self._tried = deque(map(ref, tried), maxlen=MOST_BEFORE)
        new.behind.extend(each for each in tried if _may_want_the_same(each, new))

    def _is_tried(self, request: LimitedRequestMixin) -> bool:
        """Return whether a process has it, or will, and has not told of its permit or its place."""
        holds = self._limiter.process.ledger.holds
        return request in state.reserved_requests and not holds(request.holder)

    def _refused_all(self, both: Sequence[tuple[NewWait, Refusal]]) -> None:
        for new, refusal in both:
            self._guarded(new, partial(self._refused, new, refusal))

    def _guarded(self, new: NewWait, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception:
            logger.exception(
                "task %s can neither wait nor run, the broker delivers it", new.request.id
            )
            self._limiter.process.ledger.ended(new.call.holder)
            state.task_ready(new.request)
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

    def _begin(self, new: NewWait) -> None:
        self._guarded(new, partial(self._give_again, new.request))

    def _give_again(self, request: LimitedRequestMixin) -> None:
        """Let a process ask for the permit, as another holder."""
        state.task_ready(request)
        if not request.may_be_moved():
            return
        fresh = request.again(None)
        fresh.needs_process = True  # else it could be asked for again and again
        state.task_reserved(fresh)
        try:
            self._try(fresh)
        except Exception:
            state.task_ready(fresh)
            raise

    # -- the thread

    def _ask_for_all(self) -> None:
        self._event.wait(IDLE_WAIT_S)
        time.sleep(TOGETHER_S)
        free = set[str]()  # resources with permits that messages before gave back
        while some := self._next():
            self._let_processes_tell([request for new in some for request in new.behind])
            refused = list[tuple[NewWait, Refusal]]()
            for new, said in zip(some, self._answers(some), strict=True):
                resources = {claim.resource for claim in new.call.claims}
                if isinstance(said, Permit) or free & resources:
                    free |= resources
                if isinstance(said, Refusal) and said.reason in WAITS and not free & resources:
                    refused.append((new, said))
                else:
                    self._try_in_process(new, permit=bool(free & resources))
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

    def _let_processes_tell(self, tried: list[LimitedRequestMixin]) -> None:
        """Wait until each of these has its permit or its place, so that none is overtaken."""
        until = time.monotonic() + TRIED_S
        while time.monotonic() < until:
            self._limiter.drain()  # a permit may be noted, and the loop need not read it soon
            tried = [each for each in dict.fromkeys(tried) if self._is_tried(each)]
            if not tried:
                break
            time.sleep(TOGETHER_S)

    def _answers(self, some: Sequence[NewWait]) -> Sequence[Said]:
        process = self._limiter.process
        try:
            process.breaker.check()
        except StoreUnavailable as error:
            return [error] * len(some)
        for new in some:
            process.ledger.asked(new.call.holder, new.call.claims)
        try:
            answers = process.measured.call_all([new.call for new in some])
        except StoreUnavailable as error:
            process.breaker.failed(error)
            return [error] * len(some)
        except Exception as error:
            logger.exception("the store could not be asked for the places of waiting tasks")
            return [SemaphoreError(repr(error))] * len(some)
        process.breaker.succeeded()
        return answers

    def _try_in_process(self, new: NewWait, *, permit: bool) -> None:
        """Release what the store has granted, or may have, with its wait; give the message to the pool.

        ``permit`` is whether it has a permit, or one that was asked for before it, which must run first.
        """
        holder, ended = new.call.holder, self._limiter.process.ledger.ended
        self._lines.forget(new.call.claims)
        begin = partial(self._limiter.in_loop, partial(self._begin, new))
        if permit:
            # Not before its release: the store would take the next holder for another run of the same task.
            ended(holder, then=begin)
        else:
            ended(holder)
            begin()


def asks_for_places(c: Consumer, limiter: Limiter) -> bool:
    """Return whether the main process of this worker should ask for places.

    Threads and greenlets ask as cheaply. Without a hub no other thread may give a message to the pool. A store without
    one round trip would answer a hundred calls one after the other, which processes make side by side. And the results
    of tasks are told of their waits by processes.
    """
    has_processes, tracks = limiter.notes is not None, limiter.settings.track_waiting
    return bool(c.hub) and has_processes and not tracks and limiter.process.store.one_round_trip


def _new_wait(
    request: LimitedRequestMixin, claims: tuple[Claim, ...], limiter: Limiter
) -> NewWait | None:
    """Return how a call with these claims asks for a place; None if it does not wait."""
    settings = limiter.settings
    headers = Headers.taken_from(Context(request.request_dict), settings.copies_expire)
    policy = request.task.semaphore_options.policy(settings).settled(parks=headers.parks)
    wait = wait_of(limiter, headers, policy)
    if wait is None:
        return None
    call = Acquire(claims, request.holder, wait, headers.message_id)
    return NewWait(request, policy, headers.keeps, call)


def _may_want_the_same(earlier: object, new: NewWait) -> bool:
    if not isinstance(earlier, LimitedRequestMixin) or earlier.waits:  # that one has its place
        return False
    claims = earlier.plain_claims
    if claims is None:  # only a process can tell
        return not set(new.request.semaphores).isdisjoint(earlier.semaphores)
    wanted = {claim.resource for claim in new.call.claims}
    return any(claim.resource in wanted for claim in claims)


def _tell_saturated(request: LimitedRequestMixin, refusal: Refusal) -> None:
    """Call the receivers, which find in ``sender.request`` what a process would show them."""
    task, stack = request.task, request.task.request_stack
    call = {"args": request.args, "kwargs": request.kwargs, "called_directly": False}
    stack.push(Context(request.request_dict, **call))
    try:
        tell_saturated(task, request.id, refusal)
    finally:
        stack.pop()
