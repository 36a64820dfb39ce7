"""BringBack: send parked messages to their queues."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Iterable

from ...core.events import (
    MessageBroughtBackEvent,
)
from ...core.formats import NewerFormat
from ...core.permit import Grant
from ...core.store import Outgoing, Store
from .parked import unpacked
from .publisher import Publisher, Returned
from .ticket_header import sent_back
from .waiting import Announce, ignore

logger = logging.getLogger(__name__)


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
