"""Handle the message of a task that was refused its permit."""

from __future__ import annotations

import logging
import time
from datetime import datetime
from functools import partial
from math import inf
from typing import Self

from celery.worker import state

from ...core.events import (
    AttemptRefusedEvent,
    CopyDroppedEvent,
    Event,
    WaitEnd,
    WaitEndedEvent,
)
from ...core.permit import Kind, Reason
from ...core.saturation import OnSaturated
from ...core.session import HeldWait
from ...core.ticket import Ticket
from ...errors import SemaphoreError
from ..holding.held_message import HeldMessage
from ..holding.redis_redelivery import leave_to_broker
from ..holding.room import CannotKeep
from ..messages.header_names import PARKS, SESSION, put_held_wait
from ..messages.own_queue import queue_of
from ..pool_process.destination import Destination
from ..pool_process.refused import Failure, RefusedAttempt
from .events import SATURATED
from .granted_request import GrantedRequestMixin

logger = logging.getLogger(__name__)

# The part of the visibility timeout after which the message may already be another worker's.
REDELIVERED = 0.75
CLOCK_MARGIN_S = 0.5  # added to ``expires``, so that the task has expired by every worker's clock


class RefusedRequestMixin(GrantedRequestMixin):
    """Holds, parks, publishes or drops the message of a refused task; put it before a ``Request`` class."""

    granted: bool
    _by_tag: str | None
    _connection: int
    _since: float
    _waits: bool  # whether an attempt of this wait was refused

    @property
    def session(self) -> str:
        """The session that asks for the grant of this task; empty without one, or once the task has its permit."""
        return self._request_dict.get(SESSION) or ""

    @property
    def semaphores(self) -> tuple[str, ...]:
        """The names of the semaphores that limit the task."""
        return tuple(limit.semaphore for limit in self.task.semaphore_options.limits)

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
            self._reply.give(partial(leave_to_broker, self.message))
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
        if (held := self._limiter.worker.held) is not None:
            ways[SESSION] = held.session_for(self.message)
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
        fresh._waits = True  # noqa: SLF001 - as above
        fresh.refusals = self.refusals
        put_held_wait(fresh._request_dict, ticket, self.refusals)  # noqa: SLF001 - as above
        return fresh

    def on_refused(self, refused: RefusedAttempt) -> None:
        """Park, keep, publish or drop the message, as its process has decided: see ``destination``."""
        state.task_ready(self)
        self.refusals += 1
        self._waits = True
        self._announce(self._refusal(refused))
        if self._already_revoked or self._already_cancelled:
            if self._already_revoked:
                self.wait_ended(WaitEnd.REVOKED)
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
        self._limiter.worker.saturation.refused(refused.semaphore, refused.claims)
        self._move(refused)
        self.grant = None  # the store was asked for it, or the wait goes on by another message
        if not (dropped or self.may_be_moved()):
            worker = self._limiter.worker
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
                logger.debug("task %s is published, not kept: %s", self.id, error)
                mover.put_back(self, refused.ticket, refused.delay)

    def revoked(self) -> bool:
        """Return whether the task was revoked or has expired, as Celery finds out and stores."""
        known = self._already_revoked
        ended: bool = super().revoked()
        if ended and not known and self._waits:
            expires = self.expires
            expired = expires is not None and datetime.now(expires.tzinfo) > expires
            self.wait_ended(WaitEnd.EXPIRED if expired else WaitEnd.REVOKED)
        return ended

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
        messages = limiter.worker.held  # another thread may set it to None
        if messages is None or not self.may_be_moved():
            msg = "its connection is lost, or the worker ends"
            raise CannotKeep(msg)
        ends_in = self._ends_in(refused.left)
        held = HeldMessage(
            self,
            refused.ticket,
            due=now + min(refused.delay, inf if ends_in is None else ends_in),
            keep_until=self._since + limiter.settings.longest_hold,
            expected=now + refused.delay,
        )
        in_line = refused.destination is Destination.IN_LINE
        if in_line and refused.ticket:
            keeps = limiter.redelivered_after
            held.wait = HeldWait(refused.ticket, refused.claims, Kind.REQUEUE, keeps)
            held.due = inf if ends_in is None else now + ends_in
        if in_line and (parking := limiter.worker.parking) is not None:
            parking.held(self.id, self.on_saturated, len(self.message.body))
        # Its process runs other tasks by now: a revoke with terminate=True must not end it.
        self.time_start = self.worker_pid = self._apply_result = None
        messages.hold(held)

    def _ended(self, *, reported: bool) -> None:
        """Release what the task may hold."""
        raise NotImplementedError

    def _ends_in(self, left: float | None) -> float | None:
        """Return the seconds until the task expires or its ``wait_timeout`` is over; None without either."""
        ends = [] if left is None else [left]
        if (expires := self.expires) is not None:
            left = (expires - datetime.now(expires.tzinfo)).total_seconds()
            ends.append(left + CLOCK_MARGIN_S)
        return max(min(ends), 0.0) if ends else None
