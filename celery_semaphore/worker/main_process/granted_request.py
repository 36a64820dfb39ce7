"""Handle the message of a granted task that ends, or goes back to the broker, before its task has run.

How it fails:

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
from collections.abc import Callable
from typing import Any

from celery.worker import state

from ...core.once import Once
from ..holding.broker_reply import BrokerReply
from ..messages.ticket_header import TICKET, Carried, WaitGrant, grant_of
from .events import EventsMixin

logger = logging.getLogger(__name__)


class GrantedRequestMixin(EventsMixin):
    """Ends the grant of a discarded message, and sends a rejected one home; put it before a ``Request`` class."""

    holder: str
    made_at: float
    refusals: int
    _reply: BrokerReply

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # The grant that is kept for this message, until its task has the permit.
        self.grant: WaitGrant | None = grant_of(self._request_dict.get(TICKET), self.id)
        self.by_granted_queue = False
        self._goes_home = Once(due=False)  # whether it must still be published into its home queue
        self._rejected = False  # whether its rejection waits for that

    def came_from(self) -> str:
        """Return the name of the message's own queue."""
        raise NotImplementedError

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

    def revoked(self) -> bool:
        """Return whether the task was revoked or has expired, as Celery finds out and stores."""
        ended: bool = super().revoked()
        if ended:
            self.end_grant()
        return ended

    def reject(self, requeue: bool = False) -> None:
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
        request: Any = self  # with what the class beside this one adds
        self._limiter.mover.put_back(request, ticket, 0.0)

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
