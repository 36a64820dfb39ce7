"""EagerHolder: the holder of one eager run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from functools import partial

from ...core.announcer import Announcer
from ...core.claim import Claim
from ...core.events import Event, PermitLostEvent, PermitRestoredEvent
from ...core.lease import LeaseKeeper
from ...core.permit import Permit
from ...core.store import HandedOn, Store
from ...errors import StoreUnavailable
from ...task.protocols import BoundTask

logger = logging.getLogger(__name__)


class EagerHolder:
    """Renews the permit of one eager run, and releases it at the end.

    The keeper's thread ends with the run: a thread that stayed would be a leak to tests that look for one.
    """

    def __init__(
        self,
        task: BoundTask,
        claims: Sequence[Claim],
        store: Store,
        handed_on: Callable[[HandedOn], None],
    ) -> None:
        task_id = task.request.id
        self.name = f"{task_id}:{os.urandom(8).hex()}"
        self.claims = claims
        self.store = store
        self._handed_on = handed_on
        announce = Announcer()
        announce.subscribe(partial(_log, f"task {task.name}[{task_id}]"))
        self._keeper = LeaseKeeper(store, announce, lambda: handed_on(HandedOn(store.reap())))

    def keep(self, permit: Permit, since: float) -> None:
        """Renew the permit from now on."""
        self.name = permit.holder
        self._keeper.add(permit, since)
        self._keeper.start()

    def end(self) -> None:
        """Release what the store may have granted, and end the thread."""
        try:
            self._keeper.discard(self.name)
            self._handed_on(self.store.release(self.name, self.claims))
        except StoreUnavailable as error:
            logger.warning("%s was not released, its lease ends: %s", self.name, error)
        finally:
            self._keeper.stop()


def _log(task: str, event: Event) -> None:
    match event:
        case PermitLostEvent(_, reason):
            logger.error("%s lost its permit: %s", task, reason)
        case PermitRestoredEvent():
            logger.warning("%s: the store forgot its permit and took it back", task)
