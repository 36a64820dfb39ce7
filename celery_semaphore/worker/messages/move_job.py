"""MoveJob: a job that moves a waiting message away from this worker, back to its queue or into the store.

A message is always with the broker or in the store. If a crash leaves it in both, the second one is recognised as a
copy and dropped (see ``core.message_id.MessageId``):

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
published, not confirmed to store   the message, and the parked one, which is deleted once the message is admitted.
                                    If the grant ends first, the parked one may be sent, too: then one of them
                                    runs, and the other is a copy
sent, not taken up                  the message: after its grant it acquires by its ticket, at its place
==================================  =======================================================================
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ...core.events import MessageEvent
from ...task.protocols import TaskRequest
from .own_queue import Unroutable

Announce = Callable[[MessageEvent], object]


def ignore(_: MessageEvent) -> None:
    """Announce nothing, in a process that is no worker."""


class MoveJob:
    """Moves the message of a refused request away; a subclass says where to."""

    urgent = False
    doing: ClassVar[str]  # for the log, with a field for the task's id
    request: TaskRequest
    longest: float  # seconds for which the message stays unacknowledged if it cannot go

    @property
    def name(self) -> str:
        """The name of the job, for the log."""
        return self.doing.format(self.request.id)

    def lasts(self, error: Exception, tried_for: float) -> bool:
        """Return whether a message that cannot go yet stays unacknowledged, for ``longest`` seconds.

        Each return is a delivery, and a quorum queue drops a message after twenty. But RabbitMQ closes a worker's
        channel if it keeps one for too long (``consumer_timeout``); Celery then ends it. One without a route is
        returned at once.
        """
        return tried_for < self.longest and not isinstance(error, Unroutable)

    def on_give_up(self) -> None:
        """Return the message to the broker, which may deliver it to another worker."""
        self.request.return_to_broker()
