"""LimitedRequest: one delivery of a limited task, as the worker's main process sees it.

Celery calls ``Request`` at every end of a task. Two rules hold at every end:

* With early acks, the message is acknowledged when the permit is noted, or when the message was published again.
  (Celery does it when a process accepts the task.) If the process dies before that, the message stays unacknowledged.
* The permit is released when the process has reported the end, or once that process is gone.

A refusal is made in ``pool_process/gate.py``, travels as the exception ``Refused`` and arrives in ``on_failure``:
Celery has no other entry for it.

How a message fails that has a grant, and ends or goes back to the broker before its task has run:

* A message that is discarded before a process asks for its permit (revoked, expired, its process died) would leave a
  grant that idles until it ends. So each such end releases the grant by its ticket; once the task has its permit there
  is no grant, and the release would change nothing.
* A message that is rejected for another delivery would come by its granted queue for ever, before all waiting tasks. So
  it is published into its home queue, and acknowledged when the broker has confirmed: if the worker or the broker fails
  before that, the old message is delivered again.
* A late release of the old message would end the wait that the new one began. So that one is published by the
  continuation of the release: the store may be away for a while, and releases overtake each other then.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from datetime import datetime
from functools import cached_property, partial
from math import inf
from typing import Any, Self

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from billiard.exceptions import Terminated, TimeLimitExceeded
from celery.concurrency.base import BasePool
from celery.exceptions import WorkerLostError
from celery.worker import state
from celery.worker.request import Request

from ...core.claim import Claim
from ...core.events import (
    AttemptRefusedEvent,
    CopyDroppedEvent,
    Event,
    WaitEnd,
    WaitEndedEvent,
)
from ...core.once import Once
from ...core.refusal import Reason
from ...core.session import HeldWait
from ...core.ticket import Ticket
from ...core.wait import Kind
from ...core.wait_policy import OnSaturated
from ...errors import PermitLost, SemaphoreError
from ...task.call_options import KEY, WEIGHT, refuse_misspelt
from ..keeping.kept_message import CannotKeep, KeptMessage
from ..keeping.redis_redelivery import leave_to_broker
from ..limiter import limiter_of
from ..messages.fanout import came_by_fanout
from ..messages.header_names import (
    EPOCH,
    FANOUT,
    HOLDER,
    OF_ONE_WAIT,
    PARKS,
    SESSION,
    put_wait,
    remove_internal,
)
from ..messages.own_queue import queue_by_tag, queue_of
from ..messages.ticket_header import (
    TICKET,
    Carried,
    WaitGrant,
    grant_of,
    is_sent_back,
    message_id_of,
    refusals_of,
)
from ..permits.process import is_gone
from ..pool_process.destination import Destination
from ..pool_process.refused_attempt import Failure, Refused, RefusedAttempt
from .events import SATURATED, EventsMixin

logger = logging.getLogger(__name__)

DIED = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)
# The pool makes these errors while the process may still run the task. After any other one no process runs it.
MAY_RUN = (*DIED, TimeLimitExceeded)
# The part of the visibility timeout after which the message may already be another worker's.
REDELIVERED = 0.75
JSON = "application/json"  # its arguments are plain values, of which a key template calls no code of the user's
CLOCK_MARGIN_S = 0.5  # added to ``expires``, so that the task has expired by every worker's clock


class LimitedRequestMixin(EventsMixin):
    """Limits the requests of a task; put it before the task's own ``Request`` class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The grant that is kept for this message, until its task has the permit.
        self.grant: WaitGrant | None = grant_of(self._request_dict.get(TICKET), self.id)
        self.by_granted_queue = False
        self._goes_home = Once(due=False)  # whether it must still be published into its home queue
        self._rejected = False  # whether its rejection waits for that
        self._limiter = limiter_of(self._app)
        self._connection = self._limiter.worker.connections
        self._by_tag = queue_by_tag(self._limiter.worker.consumer, self.message.delivery_info)
        self._accepting = False
        self._loss: str | None = None
        self._returned = False  # whether the message was returned to the broker
        # Permits and ends are noted by different threads, and a second reply would close the channel.
        self._reply = Once()
        self._since = self.made_at = time.monotonic()  # when the broker delivered the message
        self.granted = False  # whether the message was kept until it was granted
        self.needs_process = False  # to ask for its permit: see ``LineAsker``
        self._drop_foreign_ticket()
        # Unique for each delivery: two runs of one task id can overlap, and are two holders.
        self.holder = f"{self.id}:{os.urandom(8).hex()}"
        came_by = self._delivery_info
        if not came_by["exchange"]:  # a retry must go to the home queue, not to its granted queue
            queue = came_by["routing_key"] or ""
            came_by["routing_key"] = self._limiter.home_of(queue)
            self.by_granted_queue = came_by["routing_key"] != queue
        sent = self._request_dict
        self._waits = TICKET in sent
        remove_internal(sent)  # a sender's semaphore_permit must not pass for a permit
        expire = self._limiter.settings.copies_expire
        self._message_id = message_id_of(sent, came_by["redelivered"], expire)
        self.refusals = refusals_of(sent)  # the attempts without a permit in this wait
        if self._limiter.loses_fanouts and came_by_fanout(self._app, came_by):
            sent[FANOUT] = came_by["exchange"]
        sent[HOLDER] = self.holder
        sent[EPOCH] = self._limiter.process.store.epoch
        sent |= self.ways_to_wait()

    def _drop_foreign_ticket(self) -> None:
        """Ignore a ticket header that no worker wrote: a store does not accept arbitrary text."""
        header = self._request_dict.get(TICKET)
        if header is None or is_sent_back(header, self.id):
            return
        del self._request_dict[TICKET]
        logger.warning(
            "task %.60s: its header %s is none of a waiting task's and is ignored (%s of %d characters)",
            self.id,
            TICKET,
            type(header).__name__,
            len(str(header)),
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # The subclass that Celery generates has an on_success that does not call ours.
        super().__init_subclass__(**kwargs)
        if generated := cls.__dict__.get("on_success"):

            def on_success(self: LimitedRequestMixin, result: Any, **kwargs: Any) -> None:
                failed, _, _ = result
                try:
                    generated(self, result, **kwargs)
                finally:
                    if not failed:  # else on_failure was called, and may have returned the message
                        self._ended(reported=True)

            cls.on_success = on_success

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """Watch for the permit, now that a process has accepted the task."""
        self._accepting = True
        try:
            super().on_accepted(pid, time_accepted)
        finally:
            self._accepting = False
        self._limiter.process.ledger.watch(self.holder, self)

    def acknowledge(self) -> None:
        """Acknowledge the message, except when Celery wants to before the task has a permit."""
        if self._accepting and not self.task.acks_late:
            return
        self._reply.run(super().acknowledge)

    def reject(self, requeue: bool = False) -> None:
        """Reject the message, unless it was acknowledged meanwhile."""
        self._returned = requeue
        self._reply.run(partial(self._reject, requeue))

    def permit_held(self, since: float) -> None:
        """Acknowledge early if the task does, and forget the wait, so that no retry inherits it."""
        self.granted, self.grant = False, None
        for name in OF_ONE_WAIT:
            self._request_dict.pop(name, None)
        if not self.task.acks_late:
            self.acknowledge()
        self.started(since)

    def on_failure(
        self, exc_info: ExceptionInfo, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Handle every end but success. A refusal arrives here, too: ``gate.py`` raised it as ``Refused``."""
        # Read the notes first: a note that was entered after the end would never be removed.
        self._limiter.drain()
        exc = _bare(exc_info.exception)
        if isinstance(exc, Refused):
            self.on_refused(exc.attempt)
        elif self._died_without_permit(exc):
            self._deliver_again()
        else:
            self._on_failed(exc, exc_info, send_failed_event, return_ok)

    def _on_failed(
        self, exc: Any, exc_info: ExceptionInfo, send_failed_event: bool, return_ok: bool
    ) -> None:
        """Let Celery handle the end, and release the permit."""
        self.failed_without_permit(exc)
        if self._loss is not None and isinstance(exc, DIED):
            exc_info, return_ok = self._lost_permit(), False
        try:
            super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
        finally:
            # An error can leave Celery's tracer, such as a soft time limit that strikes right before or after the run.
            # The process goes on after it: to wait until it is gone would keep the permit for all that time.
            self._ended(reported=return_ok or not isinstance(exc, MAY_RUN))

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Handle an exceeded time limit; at a hard one the process is killed after this call."""
        super().on_timeout(soft, timeout)
        if not soft:
            self._ended(reported=False)

    def terminate(self, pool: BasePool, signal: str | int | None = None) -> None:
        """Handle a revoke of a running task: its process is being killed."""
        self._accepting = False  # on_accepted may call this, and a revoked message must be acked
        super().terminate(pool, signal)
        self._ended(reported=False)

    def cancel(self, pool: BasePool, signal: str | int | None = None, **options: bool) -> None:
        """Handle a cold shutdown or a lost connection: the process is being killed."""
        self._limiter.drain()
        if self._limiter.process.ledger.is_over(self.holder):
            return  # its body has ended and its message is not acknowledged yet: it would run twice
        super().cancel(pool, signal, **options)
        if self.worker_pid is not None and self._limiter.notes is not None:
            self._limiter.process.ledger.ended(self.holder, partial(is_gone, self.worker_pid))

    def _ended(self, *, reported: bool) -> None:
        """Release the permit: at once if the process ``reported`` the end, else once that process is gone."""
        self._limiter.drain()
        ledger = self._limiter.process.ledger
        cancelled = self._already_cancelled
        if not self.task.acks_late and not self.acknowledged and not cancelled:
            self.acknowledge()
        message_id = None if self._returned or cancelled else self._message_id
        then = None if cancelled else self.after_release(returned=self._returned)
        if reported or self.worker_pid is None:
            ledger.ended(self.holder, None, message_id, then)
        elif self._limiter.notes is not None:
            ledger.ended(self.holder, partial(is_gone, self.worker_pid), message_id, then)
        # Else the task runs in this process, which goes on: task_postrun releases the permit.

    def _died_without_permit(self, exc: BaseException) -> bool:
        """Return whether an early-ack task must be delivered again, because its body never began.

        This happens once only: a key function that kills its process must not do so for ever. But a message of a
        granted queue may be a redelivery since it found no process; it goes to its home queue, as another message.
        """
        return (
            isinstance(exc, DIED)
            and not self.task.acks_late
            and not self.acknowledged
            and not self._already_revoked
            and not self._already_cancelled
            and not self._limiter.process.ledger.holds(self.holder)
            and (self.by_granted_queue or not self.message.delivery_info.get("redelivered"))
        )

    def _deliver_again(self) -> None:
        state.task_ready(self)
        logger.warning("task %s lost its process before it had a permit, delivered again", self.id)
        self.reject(requeue=True)
        self._ended(reported=False)

    def permit_lost(self, reason: str) -> None:
        """End the task if its options say so: its lease expired while it runs."""
        if not self.task.semaphore_options.terminates(self._limiter.settings):
            return
        self._loss = reason
        if self.worker_pid is not None:
            runs = partial(self._limiter.process.ledger.has, self.holder)
            self._limiter.kill(self.worker_pid, runs)

    def _lost_permit(self) -> ExceptionInfo:
        try:
            msg = f"task {self.id}: {self._loss}"
            raise PermitLost(msg)  # noqa: TRY301 - Celery wants its traceback
        except PermitLost:
            return ExceptionInfo()

    # -- a task without a permit

    @property
    def session(self) -> str:
        """The session that asks for the grant of this task; empty without one, or once the task has its permit."""
        return self._request_dict.get(SESSION) or ""

    @property
    def semaphores(self) -> tuple[str, ...]:
        """The names of the semaphores that limit the task."""
        return tuple(limit.semaphore for limit in self.task.semaphore_options.limits)

    @property
    def waits(self) -> bool:
        """Whether the task was refused before."""
        return self._waits

    @cached_property
    def plain_claims(self) -> tuple[Claim, ...] | None:
        """The claims of the call, if this process can make them, without a function of the user's; else None.

        No error may leave the event loop: a process fails the task.
        """
        sent, options = self._request_dict, self.task.semaphore_options
        if FANOUT in sent or self.message.delivery_info.get("redelivered"):
            return None  # it fails; or the store may know more of it than that it must wait
        plain = self.content_type == JSON
        try:
            refuse_misspelt(sent)
            return options.plain_claims(
                self.args, self.kwargs, sent.get(KEY), sent.get(WEIGHT), plain=plain
            )
        except Exception:
            logger.debug("a process tries task %s", self.id, exc_info=True)
            return None

    def came_from(self) -> str:
        """Return the name of the message's own queue."""
        info = self.message.delivery_info
        came_by = queue_of(self._app, self._by_tag, info)
        return self._limiter.home_of(came_by)

    def comes_back_to(self) -> str:
        """Return the name of the queue by which the message comes back with a permit."""
        return self._limiter.comes_back_to(self.came_from())

    def may_be_moved(self) -> bool:
        """Return False if its connection is lost: the broker redelivers the message, and another would be a copy."""
        return self._connection == self._limiter.worker.connections

    def on_parked(self) -> None:
        """Acknowledge the message, which is in the store, unless the broker may have given it to another worker."""
        after = self._limiter.redelivered_after
        if after and time.monotonic() - self._since > REDELIVERED * after:
            self._reply.run(partial(leave_to_broker, self.message))
        else:
            self.acknowledge()

    def on_not_parked(self, error: SemaphoreError) -> None:
        """Warn that the store has not taken the message."""
        if (parking := self._limiter.worker.parking) is not None:
            parking.failed(self.id, error)

    @property
    def on_saturated(self) -> OnSaturated:
        """How the task waits, as its options or the settings say."""
        return self.task.semaphore_options.on_saturated_by(self._limiter.settings)

    def parks(self) -> bool:
        """Return whether the store may take the message now, as the options of the task and the last look say."""
        parking = self._limiter.worker.parking
        return parking is None or parking.parks(self.on_saturated, len(self.message.body))

    def ways_to_wait(self) -> dict[str, object]:
        """Return what ``destination`` must know of store and broker, for the pool process, and so does the store."""
        ways: dict[str, object] = {}
        if (kept := self._limiter.worker.kept) is not None:
            ways[SESSION] = kept.session_for(self.message)
        if self._limiter.worker.parking is not None:
            ways[PARKS] = self.parks()
        return ways

    def again(self, ticket: Ticket | None) -> Self:
        """Return a fresh request of the same message: a new holder that acquires at once, with this ticket."""
        fresh = type(self)(
            self.message,
            on_ack=self.on_ack,
            on_reject=self.on_reject,
            hostname=self.hostname,
            eventer=self.eventer,
            app=self._app,
            connection_errors=self.connection_errors,
            task=self.task,
            body=self.body,
            headers={**self._request_dict, "eta": None},
            decoded=self._decoded,
            utc=self.utc,
        )
        fresh._reply, fresh._since, fresh._by_tag = self._reply, self._since, self._by_tag  # noqa: SLF001 - its own
        fresh._waits = self._waits  # noqa: SLF001 - as above
        fresh.refusals = self.refusals
        put_wait(fresh._request_dict, ticket, self.refusals)  # noqa: SLF001 - as above
        return fresh

    def on_refused(self, refused: RefusedAttempt) -> None:
        """Park, keep, publish or drop the message, as its process has decided: see ``destination``."""
        state.task_ready(self)
        self.refusals += 1
        self._waits = True
        self._announce(self._refusal(refused))
        if self._already_revoked or self._already_cancelled:
            if self._already_revoked:
                self.wait_ended(self._revoked_or_expired())
                if refused.ticket and refused.claims:  # or it could be granted a permit
                    self.grant = refused.ticket, refused.claims
            self._ended(reported=True)  # the task was ended while the refusal was on its way
            return
        ledger = self._limiter.process.ledger
        if refused.answer_known:
            ledger.refused(self.holder)
        else:
            ledger.ended(self.holder)  # the answer that was lost may have been a permit
        dropped = refused.destination is Destination.DROPPED
        worker = self._limiter.worker
        worker.saturation.refused(refused.semaphore, refused.claims)
        # Past one that is too heavy others may run.
        if refused.why in (Reason.SATURATED, Reason.PAUSED):
            worker.lines.refused(refused.semaphore, refused.claims, refused.delay)
        self._move(refused)
        self.grant = None  # the store was asked for it, or the wait goes on by another message
        if not (dropped or self.may_be_moved()):
            worker.in_loop(partial(worker.lost.refused, self.message))
        self._tell(refused, dropped=dropped)

    def _move(self, refused: RefusedAttempt) -> None:
        to, mover = refused.destination, self._limiter.mover
        if to is Destination.DROPPED:
            self.acknowledge()
            self.end_grant()  # after a change of its policy it asked without its ticket
        elif to is Destination.PARKED and refused.ticket:
            ends_in = self._ends_in(refused.left)
            mover.park(self, refused.ticket, refused.claims, delay=refused.delay, ends_in=ends_in)
        elif to is Destination.PUBLISHED:
            mover.put_back(self, refused.ticket, refused.delay)
        else:
            try:
                self._keep(refused)
            except CannotKeep as error:
                level = logging.WARNING if error.__cause__ else logging.DEBUG
                logger.log(level, "task %s is published, not kept: %s", self.id, error)
                mover.put_back(self, refused.ticket, refused.delay)

    def revoked(self) -> bool:
        """Return whether the task was revoked or has expired, as Celery finds out and stores."""
        known = self._already_revoked
        ended: bool = super().revoked()
        if ended:
            self.end_grant()
        if ended and not known and self._waits:
            self.wait_ended(self._revoked_or_expired())
        return ended

    def _revoked_or_expired(self) -> WaitEnd:
        expires = self.expires
        expired = expires is not None and datetime.now(expires.tzinfo) > expires
        return WaitEnd.EXPIRED if expired else WaitEnd.REVOKED

    def wait_ended(self, how: WaitEnd) -> None:
        """Announce that the wait ended without a run."""
        self._announce(WaitEndedEvent(self.semaphores, self.name, how))

    def failed_without_permit(self, exc: BaseException) -> None:
        """Announce the refusal of an attempt that failed because of it.

        A body raises the same errors if it acquires by itself; then its delivery has a permit.
        """
        failure = Failure.of(exc)
        if failure is None or self._limiter.process.ledger.holds(self.holder):
            return
        semaphores = self._of(failure.semaphore)
        timed_out = failure.why == Reason.TIMED_OUT
        how = WaitEnd.TIMED_OUT if timed_out else WaitEnd.FAILED
        self._announce(AttemptRefusedEvent(semaphores, self.name, failure.why))
        self._announce(WaitEndedEvent(semaphores, self.name, how))

    def _tell(self, refused: RefusedAttempt, *, dropped: bool) -> None:
        """Send the events of a refusal, and of a wait that it ends."""
        if refused.why in (Reason.COPY, Reason.RUNNING):
            if dropped:
                self._announce(CopyDroppedEvent(self._of(refused.semaphore), self.name))
            return
        self.send_event(SATURATED, reason=refused.reason)
        if dropped:
            self.wait_ended(WaitEnd.DROPPED)
            self.dropped()

    def _refusal(self, refused: RefusedAttempt) -> AttemptRefusedEvent:
        semaphores = self._of(refused.semaphore)
        return AttemptRefusedEvent(semaphores, self.name, refused.why, refused.answer_known)

    def _of(self, semaphore: str) -> tuple[str, ...]:
        """Return the semaphore that refused, or all of the task if none has."""
        return (semaphore,) if semaphore else self.semaphores

    def _announce(self, event: Event) -> None:
        self._limiter.process.announce(event)

    def _keep(self, refused: RefusedAttempt) -> None:
        """Keep the message unacknowledged; raise ``CannotKeep``."""
        limiter, now = self._limiter, time.monotonic()
        messages = limiter.worker.kept  # another thread may set it to None
        if messages is None or not self.may_be_moved():
            msg = "its connection is lost, or the worker ends"
            raise CannotKeep(msg)
        ends_in = self._ends_in(refused.left)
        kept = KeptMessage(
            self,
            refused.ticket,
            due=now + min(refused.delay, inf if ends_in is None else ends_in),
            keep_until=self._since + limiter.settings.longest_keeping,
            expected=now + refused.delay,
        )
        in_line = refused.destination is Destination.IN_LINE
        if in_line and refused.ticket:
            keeps = limiter.redelivered_after
            kept.wait = HeldWait(refused.ticket, refused.claims, Kind.REQUEUE, keeps)
            kept.due = inf if ends_in is None else now + ends_in
        if in_line and (parking := limiter.worker.parking) is not None:
            parking.kept(self.id, self.on_saturated, len(self.message.body))
        # Its process runs other tasks by now: a revoke with terminate=True must not end it.
        self.time_start = self.worker_pid = self._apply_result = None
        messages.keep(kept)

    def _ends_in(self, left: float | None) -> float | None:
        """Return the seconds until the task expires or its ``wait_timeout`` is over; None without either."""
        ends = [] if left is None else [left]
        if (expires := self.expires) is not None:
            left = (expires - datetime.now(expires.tzinfo)).total_seconds()
            ends.append(left + CLOCK_MARGIN_S)
        return max(min(ends), 0.0) if ends else None

    # -- a message with a grant that is kept for it

    @property
    def is_unstarted(self) -> bool:
        """Whether no process was given the task, which has not ended either."""
        return self._apply_result is None and self.time_start is None and not self._already_revoked

    def end_grant(self) -> None:
        """Give the permit that is kept for this message to the next in line: its task ended without it."""
        grant, self.grant = self.grant, None
        if grant is not None:
            self._limiter.process.releaser.release(*grant)

    def revoked_in_line(self) -> bool:
        """Return whether the task ended while it waits for a process: revoked, or expired. Store its end then."""
        stamped = state.revoked_stamps and self.stamped_headers
        try:
            return bool(self.expires or self.id in state.revoked or stamped) and self.revoked()
        except Exception:  # of the result backend; it is tried again
            logger.exception("task %s was revoked, but could not be ended", self.id)
            return False

    def _reject(self, requeue: bool) -> None:
        """Reject the message; one that came by a granted queue and shall be delivered again goes home instead."""
        if not (requeue and self.by_granted_queue) or self._rejected:
            super().reject(requeue)
            return
        self._rejected = True
        self._goes_home.restore()
        self.send_event("task-rejected", requeue=True)

    def go_home(self) -> None:
        """Publish a rejected message into its home queue, unless that was done; its grant ends first."""
        if (grant := self.grant) is not None:  # it would idle while the message waits there
            self.end_grant()
            self._limiter.process.releaser.after(grant[0], self.go_home)
            return
        if not self._goes_home.take():  # an end may be noted twice
            return
        # A task that had its permit has no ticket any more: it begins a new wait.
        carried = Carried.read(self._request_dict.get(TICKET))
        ticket = None if carried is None else carried.ticket
        if ticket is None:
            self.refusals = 0
        self._limiter.mover.put_back(self, ticket, 0.0)

    def on_put_back(self) -> None:
        """Acknowledge the message: the broker has the one that replaces it."""
        if self._rejected:  # no other reply counts any more
            super().acknowledge()
        else:
            self.acknowledge()

    def return_to_broker(self) -> None:
        """Return the message to the broker, because it could not be published again."""
        if self._rejected:
            super().reject(requeue=True)
        else:
            self._rejected = True
            self.reject(requeue=True)

    def deliver_elsewhere(self) -> None:
        """Let the broker deliver the message again, because it cannot be run here."""
        self.reject(requeue=True)
        self._limiter.process.releaser.after(self.holder, self.go_home)

    def after_release(self, *, returned: bool) -> Callable[[], None] | None:
        """Return what follows the release at an end: a message goes home, or gives its grant back, if it has it."""
        if returned:
            return self.go_home
        return None if self.grant is None else self.end_grant


class LimitedRequest(LimitedRequestMixin, Request):  # type: ignore[misc] # Celery ships no types
    """The ``Request`` class of a limited task."""


def _bare(exc: Any) -> BaseException:
    bare: BaseException = exc.exc if isinstance(exc, ExceptionWithTraceback) else exc
    return bare
