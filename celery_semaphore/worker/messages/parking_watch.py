"""ParkingWatch: follow whether waiting tasks may be parked, for one worker.

It decides when the worker starts, when the store's server changed, and once a minute, for persistence can be switched
off while workers run. A refusal between two looks obeys the older one. So after such a change messages are still parked
for up to a minute and a pause of the sweep, and a store can have more of them than ``park_max_waiting``, by what all
workers park in that time.

A broker that is away would delay each sweep by its timeouts. So a sweep asks it only while the worker has a connection
to it, and otherwise obeys its last answer: no message of a lost connection is parked.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace

from celery import Celery

from ...core.parking import (
    UNKNOWN,
    BrokerFacts,
    OversizedMessage,
    ParkingDecision,
    ParkingRoom,
    decided,
)
from ...core.store import Store
from ...core.wait_policy import OnSaturated
from ...errors import SemaphoreError, StoreFull, StoreUnavailable
from ...settings import Settings
from .broker import facts_of_broker
from .brokers import Brokers
from .hourly_warnings import HourlyWarnings

logger = logging.getLogger(__name__)

LOOK_S = 60.0  # between two looks


class ParkingWatch:
    """Knows whether the tasks of one worker are parked when they must wait."""

    def __init__(
        self,
        app: Celery,
        settings: Settings,
        store: Callable[[], Store],
        *,
        brokers: Brokers,
        connected: Callable[[], bool] = lambda: True,
    ) -> None:
        self._app = app
        self._brokers = brokers
        self._connected = connected  # to the broker
        self._facts: BrokerFacts | None = (
            None  # what the broker said last; None if it did not answer
        )
        self._consumes = False  # whether this is a worker, and not a command that looks
        self._settings = settings
        self._store = store
        self._room = ParkingRoom(settings.park_max_waiting)
        # The event loop reads it, so it is replaced as a whole.
        self.decision = ParkingDecision("the store", UNKNOWN)
        self._sure = False  # whether store and broker have answered
        self._epoch: int | None = None  # of the store that the decision is about
        self._looked_at = 0.0  # monotonic time
        self._left = ""  # what a purge of the broker leaves, as the newest look found
        self._largest: int | None = None  # bytes of a message that the store keeps
        self._waits = False
        self._told: ParkingDecision | None = None
        self._warnings = HourlyWarnings(logger)

    def begin(self, *, waits: bool, purged: bool = False) -> None:
        """Decide for the first time; ``waits`` is whether any task leaves the choice to this decision.

        If the broker's queues are ``purged``, warn of the tasks that this leaves.
        """
        self._waits = waits
        self._consumes = True
        self.decide_again()
        if purged and (left := self._left):
            logger.warning("%s", left)

    def sweep(self) -> None:
        """Decide again if it is time, or if another server answers; log it if it is another decision."""
        self.current()
        self._tell()

    def current(self) -> ParkingDecision:
        """Return the decision, made anew if it is time, or if another server answers."""
        if self._is_due():
            self._look(asks=self._connected())
        return self.decision

    def decide_again(self) -> None:
        """Decide now, and log it if it is another decision."""
        self._look(asks=True)
        self._tell()

    def _is_due(self) -> bool:
        due = not self._sure or time.monotonic() - self._looked_at >= LOOK_S
        return due or self._store().epoch != self._epoch

    def _look(self, *, asks: bool) -> None:
        store, before = self._store(), self.decision
        try:
            durability = store.durability(self._settings.park_max_waiting)
            others = self._brokers.others(consumes=self._consumes)
        except StoreUnavailable as error:
            self.decision, self._sure = replace(before, parks=False, why=error.reason), False
            return
        if asks:
            self._facts = self._broker()
        self._left, self._largest = durability.unpurged(), durability.largest_payload
        shortage = self._room.shortage(durability, lacking=bool(before.shortage))
        decision = decided(durability, self._facts or BrokerFacts())
        decision = decision.beside(self._brokers.own, others)
        self.decision = replace(decision, shortage=shortage)
        self._sure = self._facts is not None
        self._epoch, self._looked_at = store.epoch, time.monotonic()

    def parks(self, on_saturated: OnSaturated, size: int) -> bool:
        """Return whether a task with this option and a body of so many bytes is parked if it must wait."""
        return self.decision.parked_there(on_saturated) and self.too_large(size) is None

    def too_large(self, size: int) -> OversizedMessage | None:
        """Return the error of a message that takes so many bytes, if it is too large."""
        most, kept = self._settings.park_max_size, self._largest
        if kept is not None and kept < size <= most:
            return OversizedMessage(size, kept, of_store=True)
        return OversizedMessage(size, most) if size > most else None

    def kept(self, task_id: str, on_saturated: OnSaturated, size: int) -> None:
        """Warn of a task that is kept only because its message is too large."""
        if self.decision.parked_there(on_saturated) and (error := self.too_large(size)):
            self.failed(task_id, error)

    def failed(self, task_id: str, error: SemaphoreError) -> None:
        """Warn of a message that is not parked; park no other one before the next look if the store is full."""
        if isinstance(error, StoreFull):
            self.decision = replace(self.decision, shortage=error.reason)
        text = f"task {task_id} is requeued, not parked: {error}"
        self._warnings.warn(type(error).__name__, text)

    def _broker(self) -> BrokerFacts | None:
        try:
            return facts_of_broker(self._app)
        except Exception as error:  # noqa: BLE001 - each transport has errors of its own
            logger.debug("the broker does not identify its server: %r", error)
            return None

    def _tell(self) -> None:
        """Log the decision if it is another one than before."""
        decision, before = self.decision, self._told
        alike = before and replace(decision, shortage=before.shortage) == before
        if alike and bool(decision.shortage) == bool(before and before.shortage):
            return  # only the figures of a shortage have changed
        self._told = decision
        if not self._waits and not decision.shortage:
            return
        kept = decision.shortage or not decision.parks
        told = before or decision.shared or not self._sure if kept else decision.weaker
        warns = decision.shortage or told
        logger.log(logging.WARNING if warns else logging.INFO, "%s", decision)
