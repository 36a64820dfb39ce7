"""Handle the message of a task that was refused its permit."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, Self

from celery.worker import state

from ...core.permit import Claim, Kind, Reason
from ...core.session import HeldWait
from ...core.ticket import Ticket
from ..holding.answer import Answer
from ..holding.held import Held
from ..holding.redelivery import leave_to_broker
from ..messages.headers import SESSION, put_held_ticket
from ..messages.route import queue_of
from ..pool_process.refusal import Refused
from .events import SATURATED, EventsMixin

# The part of the visibility timeout after which the message may already be another worker's.
REDELIVERED = 0.75
CLOCK_MARGIN_S = 0.5  # added to ``expires``, so that the task has expired by every worker's clock


class RefusedRequestMixin(EventsMixin):
    """Holds, parks, publishes or drops the message of a refused task; put it before a ``Request`` class."""

    id: str
    holder: str
    message: Any
    worker_pid: int | None
    _answer: Answer
    _by_tag: str | None
    _connection: int
    _request_dict: dict[str, Any]
    _since: float

    @property
    def session(self) -> str:
        """The session that asks for the grant of this task; empty without one, or once the task has its permit."""
        return self._request_dict.get(SESSION) or ""

    def came_from(self) -> str:
        """Return the name of the message's own queue."""
        info = self.message.delivery_info
        came_by = queue_of(self._app, self._by_tag, info)  # type: ignore[attr-defined]
        return self._limiter.home_of(came_by)

    def comes_back_to(self) -> str:
        """Return the name of the queue by which the message comes back with a permit."""
        return self._limiter.comes_back_to(self.came_from())

    def may_go_back(self) -> bool:
        """Return False if its connection is lost: the broker redelivers the message, and another would be a copy."""
        return self._connection == self._limiter.connections

    def went_back(self) -> None:
        """Acknowledge the message: the broker has the one that replaces it."""
        self.acknowledge()  # type: ignore[attr-defined]

    def was_parked(self) -> None:
        """Acknowledge the message, which is in the store, unless the broker may have given it to another worker."""
        after = self._limiter.redelivered_after
        if after and time.monotonic() - self._since > REDELIVERED * after:
            self._answer.give(partial(leave_to_broker, self.message))
        else:
            self.acknowledge()  # type: ignore[attr-defined]

    def came_to_nothing(self) -> None:
        """Return the message to the broker, because it could not be published again."""
        self.reject(requeue=True)  # type: ignore[attr-defined]

    def again(self, ticket: Ticket | None) -> Self:
        """Return a fresh request of the same message: a new holder that acquires at once, with this ticket."""
        fresh = type(self)(
            self.message,
            on_ack=self.on_ack,  # type: ignore[attr-defined]
            on_reject=self.on_reject,  # type: ignore[attr-defined]
            hostname=self.hostname,  # type: ignore[attr-defined]
            eventer=self.eventer,  # type: ignore[attr-defined]
            app=self._app,  # type: ignore[attr-defined]
            connection_errors=self.connection_errors,  # type: ignore[attr-defined]
            task=self.task,
            body=self.body,  # type: ignore[attr-defined]
            headers={**self._request_dict, "eta": None},
            decoded=self._decoded,  # type: ignore[attr-defined]
            utc=self.utc,  # type: ignore[attr-defined]
        )
        fresh._answer, fresh._since, fresh._by_tag = self._answer, self._since, self._by_tag  # noqa: SLF001 - its own
        put_held_ticket(fresh._request_dict, ticket)  # noqa: SLF001 - as above
        return fresh

    def _go_back(self, refused: Refused) -> None:
        """Hold, park, publish or drop the message, as the refusal requires."""
        state.task_ready(self)
        if self._already_revoked or self._already_cancelled:  # type: ignore[attr-defined]
            self._ended(reported=True)  # the task was ended while the refusal was on its way
            return
        ledger = self._limiter.process.ledger
        claims: tuple[Claim, ...] = ()
        if refused.answer_known:
            claims = ledger.refused(self.holder)
        else:
            ledger.ended(self.holder)  # the answer that was lost may have been a permit
        if refused.delay is None:
            self.acknowledge()  # type: ignore[attr-defined]
        elif refused.parks and refused.ticket and claims:
            self._limiter.mover.park(
                self,
                refused.ticket,
                claims,
                delay=refused.delay,
                ends_in=self._ends_in(refused.left),
            )
        elif refused.elsewhere or not self._hold(refused, refused.delay, claims):
            self._limiter.mover.put_back(self, refused.ticket, refused.delay)
        if refused.reason not in (Reason.COPY, Reason.RUNNING):
            self.send_event(SATURATED, reason=refused.reason)
            if refused.delay is None:
                self.dropped()

    def _hold(self, refused: Refused, delay: float, claims: tuple[Claim, ...]) -> bool:
        limiter, now = self._limiter, time.monotonic()
        if limiter.held is None or not self.may_go_back():
            return False
        ends_in = self._ends_in(refused.left)
        held = Held(
            self,
            refused.ticket,
            due=now + min(delay, inf if ends_in is None else ends_in),
            keep_until=self._since + limiter.settings.longest_hold,
            expected=now + delay,
        )
        if refused.in_line and refused.ticket and claims and self.session:
            keeps = limiter.redelivered_after
            held.wait = HeldWait(refused.ticket, claims, Kind.REQUEUE, keeps)
            held.due = inf if ends_in is None else now + ends_in
        # Its process runs other tasks by now: a revoke with terminate=True must not end it.
        self.time_start = self.worker_pid = self._apply_result = None
        return limiter.held.hold(held)

    def _ended(self, *, reported: bool) -> None:
        """Release what the task may hold."""
        raise NotImplementedError

    def _ends_in(self, left: float | None) -> float | None:
        """Return the seconds until the task expires or its ``wait_timeout`` is over; None without either."""
        ends = [] if left is None else [left]
        if (expires := self.expires) is not None:  # type: ignore[attr-defined]
            left = (expires - datetime.now(expires.tzinfo)).total_seconds()
            ends.append(left + CLOCK_MARGIN_S)
        return max(min(ends), 0.0) if ends else None
