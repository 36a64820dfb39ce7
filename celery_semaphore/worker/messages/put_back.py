"""PutBack: publish the message of a waiting task again."""

from __future__ import annotations

import logging
import time
from dataclasses import KW_ONLY, InitVar, dataclass

from ...core.events import MessagePutBackEvent
from ...core.ticket import Ticket
from ...task.protocols import TaskRequest
from .move_job import Announce, MoveJob, ignore
from .publisher import Publisher
from .ticket_header import TICKET, sent_back

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class PutBack(MoveJob):
    """Publishes a message again, to come back after ``delay`` seconds."""

    doing = "putting task {} back"

    publisher: Publisher
    request: TaskRequest
    ticket: Ticket | None
    delay: InitVar[float]
    _: KW_ONLY
    longest: float
    announce: Announce = ignore

    def __post_init__(self, delay: float) -> None:
        self._due = time.monotonic() + delay
        self._attempts = 0

    def run(self) -> None:
        """Publish the message; acknowledge the old one only when the broker has confirmed."""
        request = self.request
        if not request.may_be_moved():
            logger.info("task %s is delivered again, not put back", request.id)
            return
        self._attempts += 1
        came = (request.message.headers or {}).get(TICKET)
        header = sent_back(request.holder, self._attempts, self.ticket, request.refusals, came)
        delay = max(self._due - time.monotonic(), 0.0)  # without the time spent here
        self.publisher.publish(request.message, request.came_from(), header=header, delay=delay)
        request.on_put_back()
        self.announce(MessagePutBackEvent(request.semaphores, request.name))
