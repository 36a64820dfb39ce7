"""ParkingWatch: follow whether waiting tasks may be parked, for one worker.

It decides when the worker starts, when the store's server changed, and once a minute, for persistence can be switched
off while workers run. A refusal between two looks obeys the older one. So after such a change messages are still parked
for up to a minute and a pause of the sweep, and a store can have more of them than ``park_max_waiting``, by what all
workers park in that time.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from celery import Celery

from ...core.parking import UNKNOWN, BrokerFacts, ParkingDecision, ParkingRoom, decided
from ...core.saturation import OnSaturated
from ...core.store import Store
from ...errors import SemaphoreError, StoreFull, StoreUnavailable
from ...settings import Settings
from .broker import facts_of_broker

logger = logging.getLogger(__name__)

LOOK_S = 60.0  # between two looks
SILENCE_S = 3600.0  # between two warnings of one reason


class OversizedMessage(SemaphoreError):
    """The message takes more bytes than are parked."""

    def __init__(self, size: int, most: int) -> None:
        super().__init__(
            f"its message takes {size} bytes, and semaphore_park_max_size is {most};"
            " pass large arguments by reference, or raise it"
        )


@dataclass(frozen=True, slots=True)
class _ParkingState:
    """What a look found; it is replaced as a whole, since the event loop reads it."""

    decision: ParkingDecision
    shortage: str = ""
    sure: bool = False  # whether store and broker have answered
    epoch: int | None = None
    at: float = 0.0  # monotonic time


class ParkingWatch:
    """Knows whether the tasks of one worker are parked when they must wait."""

    def __init__(self, app: Celery, settings: Settings, store: Callable[[], Store]) -> None:
        self._app = app
        self._settings = settings
        self._store = store
        self._room = ParkingRoom(settings.park_max_waiting)
        self._seen = _ParkingState(ParkingDecision("the store", UNKNOWN))
        self._waits = True  # whether a task leaves the choice to this decision
        self._told: str | None = None
        self._warned: dict[str, float] = {}

    @property
    def decision(self) -> ParkingDecision:
        """The newest decision."""
        return self._seen.decision

    def begin(self, *, waits: bool) -> None:
        """Decide for the first time; ``waits`` is whether any task leaves the choice to this decision."""
        self._waits = waits
        self.look()

    def sweep(self) -> None:
        """Decide again if it is time, or if another server answers."""
        seen = self._seen
        due = not seen.sure or time.monotonic() - seen.at >= LOOK_S
        if due or self._store().epoch != seen.epoch:
            self.look()

    def look(self) -> None:
        """Decide now, and log it if it is another decision."""
        store, before = self._store(), self._seen
        try:
            keeping = store.keeping(self._settings.park_max_waiting)
        except StoreUnavailable as error:
            decision = ParkingDecision(before.decision.place, error.reason, weaker=True)
            self._seen = _ParkingState(decision, before.shortage)
            self._tell(decision)
            return
        broker = self._broker()
        decision = decided(keeping, broker or BrokerFacts())
        shortage = self._room.shortage(keeping, lacking=bool(before.shortage))
        self._seen = _ParkingState(
            decision, shortage, broker is not None, store.epoch, time.monotonic()
        )
        self._tell(decision)
        if shortage:
            text = f"waiting tasks are requeued, not parked in {decision.place}: {shortage}"
            self._warn("shortage", text)
        elif before.shortage:
            logger.info("waiting tasks can be parked again in %s", decision.place)

    def parks(self, on_saturated: OnSaturated, size: int) -> bool:
        """Return whether a task with this option and a body of so many bytes is parked if it must wait."""
        return self._would_park(on_saturated) and self.too_large(size) is None

    def too_large(self, size: int) -> OversizedMessage | None:
        """Return the error of a message that takes so many bytes, if it is too large."""
        most = self._settings.park_max_size
        return OversizedMessage(size, most) if size > most else None

    def held(self, task_id: str, on_saturated: OnSaturated, size: int) -> None:
        """Warn of a task that is held only because its message is too large."""
        if self._would_park(on_saturated) and (error := self.too_large(size)):
            self.failed(task_id, error)

    def failed(self, task_id: str, error: SemaphoreError) -> None:
        """Warn of a message that is not parked; park no other one before the next look if the store is full."""
        if isinstance(error, StoreFull):
            self._seen = replace(self._seen, shortage=self._seen.shortage or error.reason)
        self._warn(type(error).__name__, f"task {task_id} is requeued, not parked: {error}")

    def _would_park(self, on_saturated: OnSaturated) -> bool:
        seen = self._seen
        wanted = on_saturated is OnSaturated.PARK or (
            on_saturated is OnSaturated.WAIT and seen.decision.parks
        )
        return wanted and not seen.shortage

    def _warn(self, reason: str, text: str) -> None:
        """Warn of a reason for which tasks are requeued, once in an hour."""
        now = time.monotonic()
        if now - self._warned.get(reason, -SILENCE_S) < SILENCE_S:
            logger.debug(text)
            return
        self._warned[reason] = now
        logger.warning("%s (others of this kind are logged in an hour again)", text)

    def _broker(self) -> BrokerFacts | None:
        try:
            return facts_of_broker(self._app)
        except Exception as error:  # noqa: BLE001 - each transport has errors of its own
            logger.debug("the broker does not tell its server: %r", error)
            return None

    def _tell(self, decision: ParkingDecision) -> None:
        text = str(decision)
        if not self._waits or text == self._told:
            return
        changed, self._told = self._told is not None, text
        warns = decision.weaker if decision.parks else changed or not self._seen.sure
        logger.log(logging.WARNING if warns else logging.INFO, text)
