"""Handle permit events in the worker's main process."""

from __future__ import annotations

import logging
from functools import partial

from celery.utils.dispatch import Signal

from ...core.events import Event, PermitLostEvent, PermitReleasedEvent, PermitRestoredEvent
from ...core.names import task_id_of
from ...core.permit import Permit
from ...task.signals import permit_lost, permit_released
from ..permits.ledger import Ledger
from ..permits.receivers import ReceiverThread

logger = logging.getLogger(__name__)


class Announcements:
    """Logs each permit event, ends the task if its permit is lost, and queues the signals.

    The renewal thread and the event loop call it. So receivers must not run here: a slow one would let leases
    expire, or delay all other tasks.
    """

    def __init__(self, ledger: Ledger, receivers: ReceiverThread) -> None:
        self._ledger = ledger
        self._receivers = receivers

    def __call__(self, event: Event) -> None:
        """Handle one event."""
        match event:
            case PermitLostEvent(permit, reason):
                logger.error("%s lost its permit: %s", self._described(permit), reason)
                task = self._ledger.task_of(permit.holder)
                self._ledger.lost(permit, reason)
                self._send(permit_lost, task, urgent=True, permit=permit, reason=reason)
            case PermitRestoredEvent(permit):
                text = "%s: the store forgot its permit and took it back"
                logger.warning(text, self._described(permit))
            case PermitReleasedEvent(permit, held, task):
                self._send(permit_released, task, urgent=False, permit=permit, held=held)

    def _described(self, permit: Permit) -> str:
        """Return the name and the id of a task, as Celery logs them; a key or an argument may be secret."""
        return f"task {self._ledger.name_of(permit.holder)}[{task_id_of(permit.holder)}]"

    def _send(
        self,
        signal: Signal,
        task: object,
        *,
        urgent: bool,
        permit: Permit,
        **fields: object,
    ) -> None:
        if signal.receivers:
            task_id = task_id_of(permit.holder)
            send = partial(signal.send, sender=task, task_id=task_id, permit=permit, **fields)
            self._receivers.add(send, urgent=urgent)
