"""Park: move the message of a waiting task into the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass

from celery.worker import state

from ...core.claim import Claim
from ...core.events import MessageParkedEvent
from ...core.parking import OversizedMessage
from ...core.store import Outgoing, Store
from ...core.ticket import Ticket
from ...errors import SemaphoreError
from ...task.protocols import TaskRequest
from .job import CannotPark
from .move_job import Announce, MoveJob, ignore
from .parked import packed


@dataclass(eq=False)
class Park(MoveJob):
    """Parks a message: attaches it to its ticket in the store."""

    doing = "parking task {}"

    store: Store
    request: TaskRequest
    ticket: Ticket
    claims: Sequence[Claim]
    _: KW_ONLY
    delay: float  # until it comes back if it is published instead
    ends_in: float | None
    largest: int
    longest: float
    broker: str
    outgoing: Callable[[Outgoing], None]
    announce: Announce = ignore

    def run(self) -> None:
        """Attach the message, and acknowledge it only when the store has it; raise ``CannotPark``."""
        request = self.request
        if not request.may_be_moved():
            return
        if not request.parks():  # it may have been received long before it was refused
            raise CannotPark(None)
        came_from, way = request.came_from(), request.comes_back_to()
        payload = packed(request.message, came_from, way, request.refusals, self.broker)
        try:
            if len(payload) > self.largest:
                raise OversizedMessage(len(payload), self.largest)
            outgoing = self.store.attach(
                self.ticket,
                self.claims,
                payload,
                name=request.id,
                ends_in=self.ends_in,
                broker=self.broker,
            )
            if request.id in state.revoked:  # a sweep that looked for it before found nothing
                outgoing |= self.store.end([request.id])
        except SemaphoreError as error:
            raise CannotPark(error) from error
        request.on_parked()
        self.outgoing(outgoing)
        self.announce(MessageParkedEvent(request.semaphores, request.name))
