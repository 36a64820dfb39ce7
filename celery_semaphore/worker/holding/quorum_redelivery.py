"""QuorumRedelivery: publish held messages of quorum queues again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from ...core.ticket import Ticket
from ...task.protocols import TaskMessage, TaskRequest
from .held_message import HeldMessage
from .prefetch import MAX_RAISED_MESSAGES

PutBackCall = Callable[[TaskRequest, Ticket | None, float], object]  # request, ticket, delay


class QuorumRedelivery:
    """Publishes messages of quorum queues again, with a delay until their expected turn.

    A quorum queue counts deliveries, and drops a message after too many of them. Its prefetch cannot be raised, so half
    of it is for held messages, and half for those that run.
    """

    def __init__(self, prefetch: int, put_back: PutBackCall) -> None:
        self.window = prefetch // 2 if prefetch else MAX_RAISED_MESSAGES
        self._put_back = put_back

    def takes(self, message: TaskMessage) -> bool:  # noqa: ARG002 - part of the protocol
        return True

    may_take = takes

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        for held in waiting:
            self._put_back(held.request, held.ticket, max(held.expected - time.monotonic(), 0.0))
