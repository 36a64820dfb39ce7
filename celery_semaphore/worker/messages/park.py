"""Park: move the message of a waiting task into the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from celery.worker import state

from ...core.events import (
    MessageParkedEvent,
)
from ...core.permit import Claim
from ...core.store import Outgoing, Store
from ...core.ticket import Ticket
from ...errors import SemaphoreError
from ..protocols import TaskRequest
from .parked import packed
from .waiting import Announce, MoveJob, ignore

logger = logging.getLogger(__name__)


class Park(MoveJob):
    """Parks a message: attaches it to its ticket in the store."""

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
        super().__init__(request, longest, announce)
        self.name = f"parking task {request.id}"
        self._store = store
        self._ticket = ticket
        self._claims = claims
        self._ends_in = ends_in
        self._largest = largest
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
