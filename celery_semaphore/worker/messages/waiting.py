"""Jobs that move waiting messages: back to their queue, into the store, and out of it again.

A message is always with the broker or in the store. If a crash leaves it in both, the second one is recognised as a
copy and dropped (see ``core.permit.MessageId``):

==================================  =======================================================================
crash                               what remains, and what happens
==================================  =======================================================================
refused, not put back or attached   the delivery, unacknowledged: the broker delivers it again, and its next
                                    acquire finds its ticket. It stays unacknowledged while the broker is
                                    away; the prefetch limits how many such messages a worker has
put back, not confirmed or acked    both: the first one with a permit runs, the other is a copy
attached, not acked                 the parked message and the delivery: likewise
granted, not taken                  the outbox: any worker's next sweep takes it
taken, not published                the parked message: when its grant has ended it is back in its place
published, not confirmed to store   the message, and the parked one, which comes again: the later is a copy
sent, not taken up                  the message: after its grant it acquires by its ticket, at its place
==================================  =======================================================================
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from celery.worker import state

from ...core.events import (
    MessageBroughtBackEvent,
    MessageEvent,
    MessageParkedEvent,
    MessagePutBackEvent,
)
from ...core.formats import NewerFormat
from ...core.permit import Claim, Grant
from ...core.store import Outgoing, Store
from ...core.ticket import Ticket
from ...errors import SemaphoreError
from ..protocols import TaskRequest
from .headers import TICKET, sent_back
from .message import packed, unpacked
from .publisher import Publisher, Returned
from .route import Unroutable

logger = logging.getLogger(__name__)

Announce = Callable[[MessageEvent], object]


def ignore(_: MessageEvent) -> None:
    """Announce nothing, in a process that is no worker."""


def _stays_in_hand(error: Exception, tried_for: float, longest: float) -> bool:
    """Return whether a message that cannot go back yet stays unacknowledged.

    Each return is a delivery, and a quorum queue drops a message after twenty. But RabbitMQ closes a worker's channel
    if it holds one for too long (``consumer_timeout``); Celery then ends it. One without a route is returned at once.
    """
    return tried_for < longest and not isinstance(error, Unroutable)


class PutBack:
    """Publishes a message again, to come back after ``delay`` seconds."""

    urgent = False

    def __init__(
        self,
        publisher: Publisher,
        request: TaskRequest,
        ticket: Ticket | None,
        delay: float,
        *,
        longest: float,
        announce: Announce = ignore,
    ) -> None:
        self._announce = announce
        self.name = f"putting task {request.id} back"
        self._publisher = publisher
        self._request = request
        self._ticket = ticket
        self._due = time.monotonic() + delay
        self._longest = longest
        self._attempts = 0

    def run(self) -> None:
        """Publish the message; acknowledge the old one only when the broker has confirmed."""
        request = self._request
        if not request.may_be_moved():
            logger.info("task %s is delivered again, not put back", request.id)
            return
        self._attempts += 1
        came = (request.message.headers or {}).get(TICKET)
        header = sent_back(request.holder, self._attempts, self._ticket, request.refusals, came)
        delay = max(self._due - time.monotonic(), 0.0)  # without the time spent here
        self._publisher.publish(request.message, request.came_from(), header=header, delay=delay)
        request.on_put_back()
        self._announce(MessagePutBackEvent(request.semaphores, request.name))

    def lasts(self, error: Exception, tried_for: float) -> bool:
        """Keep the message unacknowledged for ``longest`` seconds: see ``_stays_in_hand``."""
        return _stays_in_hand(error, tried_for, self._longest)

    def on_give_up(self) -> None:
        """Return the message to the broker, which may deliver it to another worker."""
        self._request.return_to_broker()


class Park:
    """Parks a message: attaches it to its ticket in the store."""

    urgent = False

    def __init__(
        self,
        store: Store,
        request: TaskRequest,
        ticket: Ticket,
        claims: Sequence[Claim],
        *,
        ends_in: float | None,
        largest: int,
        longest: float,
        instead: Callable[[], None],
        outgoing: Callable[[Outgoing], None],
        announce: Announce = ignore,
    ) -> None:
        self._announce = announce
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
        """Attach the message, and acknowledge it only when the store has it."""
        request = self._request
        if not request.may_be_moved():
            return
        came_from, way = request.came_from(), request.comes_back_to()
        payload = packed(request.message, came_from, way, request.refusals)
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
            if request.id in state.revoked:  # a sweep that looked for it before found nothing
                outgoing |= self._store.end([request.id])
        except SemaphoreError as error:
            logger.warning("task %s is requeued, not parked: %s", request.id, error)
            self._instead()
            return
        request.on_parked()
        self._outgoing(outgoing)
        self._announce(MessageParkedEvent(request.semaphores, request.name))

    def lasts(self, error: Exception, tried_for: float) -> bool:
        """Keep the message unacknowledged for ``longest`` seconds: see ``_stays_in_hand``."""
        return _stays_in_hand(error, tried_for, self._longest)

    def on_give_up(self) -> None:
        """Return the message to the broker, which may deliver it to another worker."""
        self._request.return_to_broker()


class BringBack:
    """Takes messages out of the outbox and sends each to its queue."""

    urgent = True  # a permit is reserved for each message

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        outgoing: Outgoing,
        *,
        granted: bool,
        grants: Iterable[Grant] = (),
        announce: Announce = ignore,
    ) -> None:
        self._announce = announce
        self.name = "bringing parked tasks back"
        self._granted = granted  # whether workers consume the granted queues
        self._store = store
        self._publisher = publisher
        self._outgoing = outgoing
        self._grants: deque[Grant] = deque(grants)  # already taken out of the outbox

    def run(self) -> None:
        """Send the messages and report them to the store, which offers the others again after their grants."""
        if not self._grants:
            self._publisher.check()  # if the broker is away, leave the messages to other workers
            self._grants.extend(self._store.take(self._outgoing))
        sent: list[Grant] = []
        try:
            while self._grants:
                if self._send(self._grants[0]):
                    sent.append(self._grants[0])
                self._grants.popleft()
        finally:
            self._grants.rotate(-1)  # one that cannot be sent must not delay the others
            if sent:
                self._store.sent(sent)

    def lasts(self, error: Exception, tried_for: float) -> bool:  # noqa: ARG002 - part of the protocol
        """Give up what could not be sent for a while: the store offers it again, to any worker."""
        return False

    def on_give_up(self) -> None:
        """Do nothing: the messages stay in the store, which offers them again."""

    def _send(self, grant: Grant) -> bool:
        """Send one message; return False if only a newer worker can, to which the store will offer it again."""
        try:
            message = unpacked(grant.payload)
        except NewerFormat as error:
            logger.warning("a parked task stays in the store: %s", error)
            return False
        # Unlike a message that was put back, this one is published by no holder: its name is random.
        header = sent_back(os.urandom(8).hex(), 1, grant.ticket, message.refusals)
        way = message.way if self._granted else message.queue
        try:
            self._publisher.publish(message, way, header=header)
        except Returned:  # the granted queue is gone: no worker consumes it any more
            self._publisher.declare(message.queue)
            self._publisher.publish(message, message.queue, header=header)
        semaphores = tuple(claim.semaphore for claim in grant.claims)
        self._announce(MessageBroughtBackEvent(semaphores, str(message.headers.get("task"))))
        return True
