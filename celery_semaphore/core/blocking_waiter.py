"""BlockingWaiter: block until a permit is acquired, in the same line as waiting tasks."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from math import inf
from typing import cast

from ..errors import SemaphoreError, StoreUnavailable
from .acquisition import Acquisition, OnAnswer, Run, Step, Steps
from .asker import asker_of
from .claim import Claim
from .held_permits import held_permits_in
from .permit import Permit
from .signal_safe_event import SignalSafeEvent
from .store import Acquire, Store
from .ticket import Ticket

logger = logging.getLogger(__name__)


class BlockingWaiter:
    """Makes the steps of one ``Acquisition`` in the calling thread.

    After any error, also one that a signal handler raised when the permit had arrived, its caller must let it
    ``give_up``.
    """

    def __init__(
        self,
        store: Store,
        claims: Sequence[Claim],
        timeout: float,
        *,
        ready: Callable[[], None] | None = None,
        on_answer: OnAnswer | None = None,
        holder: str | None = None,
        longest_pause: float = inf,
    ) -> None:
        self._store = store
        self._acquisition = Acquisition(
            store,
            claims,
            timeout,
            ready=ready,
            on_answer=on_answer,
            holder=holder,
            longest_pause=longest_pause,
        )

    def acquire(self) -> tuple[Permit, float]:
        """Return the permit and the monotonic time before it was acquired; raise ``SemaphoreTimeout``."""
        steps = self._acquisition.steps()
        try:
            return self._driven(steps)
        finally:
            steps.close()
            self._acquisition.end()

    @property
    def holder(self) -> str:
        """The name by which it asks, and which its permit has."""
        return self._acquisition.holder

    def give_up(self) -> None:
        """Leave the line, and release the permit that was acquired, or may have been by a lost answer."""
        self._acquisition.end()
        for name in self._acquisition.names():
            self._release(name)

    def give_up_later(self) -> None:
        """Do the same in the background."""
        self._acquisition.end()
        for name in self._acquisition.names():
            held_permits_in(self._store).release_later(name, self._acquisition.claims)

    def _driven(self, steps: Steps) -> tuple[Permit, float]:
        try:
            step = next(steps)
            while True:
                try:
                    said = self._made(step)
                except StoreUnavailable as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(said)
        except StopIteration as end:
            return cast("tuple[Permit, float]", end.value)

    def _made(self, step: Step) -> object:
        if isinstance(step, Acquire):
            return self._store.acquire(step.claims, step.holder, step.wait)
        if isinstance(step, Run):
            return step.call()
        if step.notified is not None:
            return cast("SignalSafeEvent", step.notified).wait(step.seconds)
        time.sleep(step.seconds)
        return None

    def _release(self, name: str | Ticket) -> None:
        """Release now; or later, if the store did not answer: the caller has waited long enough."""
        acquisition = self._acquisition
        try:
            if acquisition.error is None:
                handed = self._store.release(name, acquisition.claims)
                asker_of(self._store).tell(handed.granted)
                return
        except StoreUnavailable as error:
            acquisition.error = error
        except SemaphoreError as error:
            logger.warning("%s was not released, its lease ends: %s", name, error)
            return
        logger.info(
            "%s may have a permit, it is released in the background: %s", name, acquisition.error
        )
        held_permits_in(self._store).release_later(name, acquisition.claims)
