"""BusyPool: send granted messages on to other workers while no process is free here.

Without this the permits of a worker that holds many messages idle while other workers have free processes. A message
goes by the granted queue, like one that was parked: it is published there, confirmed, then acknowledged. Its session
prolongs its grant meanwhile.

All of this happens in the event loop, where the pool also takes requests: a request is either given to a process or
sent on. How it fails:

* The worker dies between the publication and the acknowledgement: two messages of one wait, of which one runs. The
  other is a copy (A8, A9 in docs/maintain/architecture.md).
* No worker takes the message in time, or its publication takes long: its grant ends, and its wait is in transit, at its
  place, until the message arrives.
* No other worker has a free process either: one message at a time is sent on, until its grant is taken up or ends. So
  a busy cluster does not empty its lines into the granted queue.
* This worker receives the message itself, since it consumes the granted queue, too: it waits for a process like any
  message of that queue, and is not sent on again.
"""

from __future__ import annotations

from collections.abc import Callable

from celery.worker import state

from ...core.session import HeldWait
from ...core.ticket import Ticket
from ..celery_types import Consumer
from ..protocols import HeldRequest, TaskRequest
from .pool_line import take_out
from .session import Session

SENT_ON_AFTER_S = 0.02  # without a free process


class BusyPool:
    """Watches the granted requests of one connection that wait for a process."""

    def __init__(
        self,
        c: Consumer,
        session: Session,
        send_on: Callable[[TaskRequest, Ticket], object],
    ) -> None:
        self._c = c
        self._session = session
        self._send_on = send_on

    def watch(self, wait: HeldWait, request: HeldRequest) -> None:
        """Send the message of a waiting request on, unless a process takes it soon."""
        if self._session.sessions > 1 and request.may_be_sent_on():
            self._c.timer.call_after(SENT_ON_AFTER_S, self._look, (wait, request))

    def _look(self, wait: HeldWait, request: HeldRequest) -> None:
        if not request.may_be_moved():
            return  # its connection is lost: the broker delivers the message again
        unstarted = self._session.unstarted
        if unstarted.is_any_sent_on():
            self.watch(wait, request)
        elif take_out(self._c, request):
            state.task_ready(request)
            unstarted.sent_on(wait)
            self._send_on(request, wait.ticket)
