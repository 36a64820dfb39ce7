"""RefusedRequestMixin: what becomes of the message of a task that was refused its permit."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, Self

from celery.worker import state

from ...core.permit import Claim, Kind, Reason
from ...core.session import HeldWait
from ..holding.answer import Answer
from ..holding.held import Held
from ..holding.redelivery import leave_to_broker
from ..messages.headers import PLACE, SESSION
from ..messages.route import queue_of
from ..pool_process.refusal import Refused
from .events import SATURATED, EventsMixin

REDELIVERED = (
    0.75  # of the time after which the broker delivers it again: then it may be another worker's
)
CLOCK_MARGIN_S = 0.5  # seconds after which no worker's clock says that a task has not expired yet


class RefusedRequestMixin(EventsMixin):
    """Goes before a ``Request`` class: holds, parks or publishes the message, or drops it."""

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
        """Name the session that asks for its grant if it must wait; empty if none does, or if it has its permit."""
        return self._request_dict.get(SESSION) or ""

    def came_from(self) -> str:
        """The name of its own queue."""
        info = self.message.delivery_info
        came_by = queue_of(self._app, self._by_tag, info)  # type: ignore[attr-defined]
        return self._limiter.home_of(came_by)

    def comes_back_to(self) -> str:
        """The name of the queue for when it has a permit."""
        return self._limiter.comes_back_to(self.came_from())

    def may_go_back(self) -> bool:
        """Not if its connection is lost: the broker delivers it again, and a copy would run twice."""
        return self._connection == self._limiter.connections

    def went_back(self) -> None:
        """The broker has the message that takes this one's place."""
        self.acknowledge()  # type: ignore[attr-defined]

    def was_parked(self) -> None:
        """The store has the message; one that was refused since, and is held elsewhere, has put it out of there."""
        after = self._limiter.redelivered_after
        if after and time.monotonic() - self._since > REDELIVERED * after:
            self._answer.give(partial(leave_to_broker, self.message))
        else:
            self.acknowledge()  # type: ignore[attr-defined]

    def came_to_nothing(self) -> None:
        """The message could not be published: the broker shall deliver this one again."""
        self.reject(requeue=True)  # type: ignore[attr-defined]

    def again(self, ticket: str | None) -> Self:
        """Return a fresh request of the same message: another holder, which asks at once, with this ticket."""
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
        if ticket is not None:
            fresh._request_dict[PLACE] = ticket  # noqa: SLF001 - as above
        return fresh

    def _go_back(self, refused: Refused) -> None:
        """Do with the message what the refusal says."""
        state.task_ready(self)
        if self._already_revoked or self._already_cancelled:  # type: ignore[attr-defined]
            self._ended(reported=True)  # its end came while the refusal was on its way
            return
        ledger = self._limiter.process.ledger
        claims: tuple[Claim, ...] = ()
        if refused.asked:
            claims = ledger.refused(self.holder)
        else:
            ledger.ended(self.holder)  # the store may have said yes to nobody
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
        # Its process runs others by now: no revoke with terminate=True may end it.
        self.time_start = self.worker_pid = self._apply_result = None
        return limiter.held.hold(held)

    def _ended(self, *, reported: bool) -> None:
        """Release what the task may hold."""
        raise NotImplementedError

    def _ends_in(self, left: float | None) -> float | None:
        """Seconds until it waits no more: it expires, or its ``wait_timeout`` is over."""
        ends = [] if left is None else [left]
        if (expires := self.expires) is not None:  # type: ignore[attr-defined]
            left = (expires - datetime.now(expires.tzinfo)).total_seconds()
            ends.append(left + CLOCK_MARGIN_S)
        return max(min(ends), 0.0) if ends else None
