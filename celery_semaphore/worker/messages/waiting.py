"""Where waiting messages go: back to their queue, into the store, and out of it again.

A message is always with the broker or in the store, never in neither; where a crash leaves it in both, the
second to come is told for a copy and not run (see ``core.permit.MessageId``):

==================================  =======================================================================
crash                               what remains, and what happens
==================================  =======================================================================
refused, not put back or attached   the delivery, unacknowledged: the broker delivers it again; it finds its
                                    ticket. So it stays while the broker takes nothing; meanwhile it counts
                                    against the prefetch, which bounds how many a worker has in hand
put back, not confirmed or acked    both: whichever gets a permit runs, the other is a copy
attached, not acked                 the parked message and the delivery: likewise
granted, not taken                  the outbox: any worker's next sweep takes it
taken, not published                the parked message: when its grant has ended it is back in its place
published, not confirmed to store   the message, and the parked one, which comes again: the later is a copy
sent, not taken up                  the message; its grant ends, it asks by its ticket and keeps its place
==================================  =======================================================================
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from celery.worker import state

from ...core.formats import NewerFormat
from ...core.permit import Claim, Grant
from ...core.store import Outgoing, Store
from ...errors import SemaphoreError
from .headers import TICKET, sent_back
from .message import packed, unpacked
from .publisher import Publisher, Returned
from .route import Unroutable

logger = logging.getLogger(__name__)


class Waiting(Protocol):
    """A request that was refused."""

    id: str
    holder: str
    message: Any

    def came_from(self) -> str:
        """The name of its queue; raises ``Unroutable``."""

    def comes_back_to(self) -> str:
        """The name of the queue for when it has a permit; raises ``Unroutable``."""

    def may_go_back(self) -> bool:
        """Whether a new message would be the only one."""

    def went_back(self) -> None:
        """A new message is with the broker: acknowledge the old one."""

    def was_parked(self) -> None:
        """The message is in the store: acknowledge it, if that takes it from no other worker."""

    def came_to_nothing(self) -> None:
        """It is not: give the old message back to the broker."""


def _stays_in_hand(error: Exception, tried_for: float, longest: float) -> bool:
    """Return whether a message that cannot go back yet stays unacknowledged.

    Each return to the broker counts as a delivery, and a quorum queue drops a message after twenty of them. But
    a broker ends the channel of a worker that holds a message for too long (RabbitMQ's ``consumer_timeout``), and
    Celery then ends the worker. A message without a way back is returned.
    """
    return tried_for < longest and not isinstance(error, Unroutable)


class PutBack:
    """Publish a message again, to come back after so many seconds."""

    urgent = False

    def __init__(
        self,
        publisher: Publisher,
        request: Waiting,
        ticket: str | None,
        delay: float,
        *,
        longest: float,
    ) -> None:
        self.name = f"putting task {request.id} back"
        self._publisher = publisher
        self._request = request
        self._ticket = ticket
        self._due = time.monotonic() + delay
        self._longest = longest
        self._attempts = 0

    def run(self) -> None:
        """Acknowledge only what the broker confirmed."""
        request = self._request
        if not request.may_go_back():
            logger.info("task %s is delivered again, not put back", request.id)
            return
        self._attempts += 1
        came = (request.message.headers or {}).get(TICKET)
        ticket = sent_back(request.holder, self._attempts, self._ticket, came)
        delay = max(self._due - time.monotonic(), 0.0)  # the time spent here is part of it
        self._publisher.publish(request.message, request.came_from(), ticket=ticket, delay=delay)
        request.went_back()

    def lasts(self, error: Exception, tried_for: float) -> bool:
        """Keep the message while its connection lives, for ``longest`` seconds: see ``_stays_in_hand``."""
        return _stays_in_hand(error, tried_for, self._longest)

    def on_give_up(self) -> None:
        """The broker shall deliver it again, perhaps to another."""
        self._request.came_to_nothing()


class Park:
    """Attach a message to its ticket."""

    urgent = False

    def __init__(
        self,
        store: Store,
        request: Waiting,
        ticket: str,
        claims: Sequence[Claim],
        *,
        ends_in: float | None,
        largest: int,
        longest: float,
        instead: Callable[[], None],
        outgoing: Callable[[Outgoing], None],
    ) -> None:
        self.name = f"parking task {request.id}"
        self._store = store
        self._request = request
        self._ticket = ticket
        self._claims = claims
        self._ends_in = ends_in
        self._largest = largest
        self._longest = longest
        self._instead = instead
        self._outgoing = outgoing

    def run(self) -> None:
        """Acknowledge only what the store has."""
        request = self._request
        if not request.may_go_back():
            return
        payload = packed(request.message, request.came_from(), request.comes_back_to())
        if len(payload) > self._largest:
            logger.error(
                "task %s is requeued, not parked: its message takes %d bytes, and semaphore_park_max_size"
                " is %d; pass large arguments by reference, or raise it",
                request.id,
                len(payload),
                self._largest,
            )
            self._instead()
            return
        try:
            outgoing = self._store.attach(
                self._ticket, self._claims, payload, name=request.id, ends_in=self._ends_in
            )
            if request.id in state.revoked:  # meanwhile: the sweep that looked for it found nothing
                outgoing |= self._store.end([request.id])
        except SemaphoreError as error:
            logger.warning("task %s is requeued, not parked: %s", request.id, error)
            self._instead()
            return
        request.was_parked()
        self._outgoing(outgoing)

    def lasts(self, error: Exception, tried_for: float) -> bool:
        """See PutBack."""
        return _stays_in_hand(error, tried_for, self._longest)

    def on_give_up(self) -> None:
        """See PutBack."""
        self._request.came_to_nothing()


class BringBack:
    """Take messages out of the outbox and send each to its queue."""

    urgent = True  # a permit is kept for them

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        outgoing: Outgoing,
        *,
        granted: bool,
        grants: Iterable[Grant] = (),
    ) -> None:
        self.name = "bringing parked tasks back"
        self._granted = granted  # whether anybody consumes the granted queues
        self._store = store
        self._publisher = publisher
        self._outgoing = outgoing
        self._grants: deque[Grant] = deque(grants)  # taken already

    def run(self) -> None:
        """Tell the store of each that the broker has; the others come again when their grant has ended."""
        if not self._grants:
            self._publisher.check()  # what is not taken is offered to other workers
            self._grants.extend(self._store.take(self._outgoing))
        sent: list[Grant] = []
        try:
            while self._grants:
                if self._send(self._grants[0]):
                    sent.append(self._grants[0])
                self._grants.popleft()
        finally:
            self._grants.rotate(-1)  # one that cannot be sent holds up no other
            if sent:
                self._store.sent(sent)

    def lasts(self, error: Exception, tried_for: float) -> bool:  # noqa: ARG002 - another's depend on them
        """Let go of what could not be sent for a while: the store offers it again, to any worker."""
        return False

    def on_give_up(self) -> None:
        """They stay in the store, and are offered again."""

    def _send(self, grant: Grant) -> bool:
        """Send it; False for one that stays in the store, which offers it again until a newer worker takes it."""
        try:
            message = unpacked(grant.payload)
        except NewerFormat as error:
            logger.warning("a parked task stays in the store: %s", error)
            return False
        # Unlike one that was put back, it was sent by nobody who could have run it.
        ticket = sent_back(os.urandom(8).hex(), 1, grant.ticket)
        way = message.way if self._granted else message.queue
        try:
            self._publisher.publish(message, way, ticket=ticket)
        except Returned:  # nobody consumes it any more
            self._publisher.declare(message.queue)
            self._publisher.publish(message, message.queue, ticket=ticket)
        return True
