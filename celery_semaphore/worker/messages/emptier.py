"""Emptier: move what lies in a granted queue without a consumer back into the queue that it belongs to.

It lies there since granted queues were turned off, since the last worker of the queue ended, or since it was sent just
when that worker ended: no worker would run it, and its permit would idle. So the grant ends first, and the next in line
gets the permit. Then the message is published, with confirm, and taken away: a crash in between leaves it in both
queues. The two are different messages of one wait, so one runs and the other is a copy (A8, A9). Its ticket goes along;
if it was admitted before, the store gives it a new place (A15).
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from ...core.store import HandedOn, Store
from .consumed_queues import ConsumedQueues
from .granted_queue import granted_queue
from .publisher import Publisher, Unreadable
from .ticket_header import TICKET, Carried, grant_of, sent_back

logger = logging.getLogger(__name__)

MOVED_AT_ONCE = 100  # messages of one queue in one run
ABSENT_S = 600.0  # between two looks for a queue that is not there: RabbitMQ logs each as an error


class Emptier:
    """Empties the granted queues of these ``homes``, but for those that a worker consumes.

    ``absent`` is kept from one job to the next: until when not to look again for a queue that is not there.
    """

    urgent = False
    name = "emptying granted queues"

    def __init__(
        self,
        publisher: Publisher,
        queues: ConsumedQueues,
        homes: Iterable[str],
        absent: dict[str, float],
        *,
        store: Store,
        handed_on: Callable[[HandedOn], object],
    ) -> None:
        self._store = store
        self._handed_on = handed_on
        self._publisher = publisher
        self._queues = queues
        self._homes = frozenset(homes)
        self._absent = absent
        self.over = False  # whether it ran, or was given up

    def run(self) -> None:
        """Move the messages that are there, some at a time."""
        now = time.monotonic()
        homes = [home for home in self._homes if self._absent.get(home, 0.0) <= now]
        looked_at = {home: granted_queue(home) for home in homes}
        unconsumed = self._queues.unconsumed(looked_at.values())
        for home, queue in looked_at.items():
            if queue in unconsumed:
                self._empty(queue, home)
        self.over = True

    def lasts(self, error: Exception, tried_for: float) -> bool:  # noqa: ARG002 - part of the protocol
        """Give up what fails for a while: the next sweep tries it again."""
        return False

    def on_give_up(self) -> None:
        """Leave the messages where they are."""
        self.over = True

    def _empty(self, queue: str, home: str) -> None:
        for _ in range(MOVED_AT_ONCE):
            try:
                message = self._publisher.fetch(queue)
            except Unreadable as error:
                logger.debug("granted queue %r is not emptied: %s", queue, error)
                self._absent[home] = time.monotonic() + ABSENT_S
                return
            if message is None:
                return
            if not self._move(message, home):
                logger.debug("queue %r has messages that are no granted tasks", queue)
                self._absent[home] = time.monotonic() + ABSENT_S
                return

    def _move(self, message: Any, home: str) -> bool:
        """Move one message; return False for one that no worker of ours sent: its queue is the user's own."""
        came = message.headers.get(TICKET)
        carried = Carried.read(came)
        if carried is None:
            message.requeue()
            return False
        if (grant := grant_of(came, message.headers.get("id"))) is not None:
            # Before it is published: a later release would end the wait that it may begin anew by then.
            self._handed_on(self._store.release(*grant))
        header = sent_back(os.urandom(8).hex(), 1, carried.ticket, carried.refusals, came)
        self._publisher.publish(message, home, header=header)
        message.ack()
        return True


def without_granted(consumed: Iterable[str]) -> frozenset[str]:
    """Return the queues of these that are consumed without their granted queues, and are no granted queues."""
    consumed = frozenset(consumed)
    others = consumed - {granted_queue(queue) for queue in consumed}
    return frozenset(queue for queue in others if granted_queue(queue) not in consumed)
