"""LoopWaiter: wait in an event loop until a permit is acquired, in the same line as threads and tasks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, cast

from ..errors import StoreUnavailable
from .acquisition import Acquisition, OnAnswer, Run, Step, Steps
from .claim import Claim
from .loop_calls import loop_calls_of
from .loop_notice import LoopNotice
from .permit import Permit
from .store import Acquire, Release, Store

logger = logging.getLogger(__name__)

LEAVE_TIMEOUT_S = 1.0  # a call that timed out waits so long until its place in line is free


class LoopWaiter:
    """Makes the steps of one ``Acquisition`` in a coroutine.

    After any error its caller must let it ``give_up``, above all after a cancellation, which may come at each await.
    """

    def __init__(
        self,
        store: Store,
        claims: Sequence[Claim],
        timeout: float,
        *,
        ready: Callable[[], None] | None,
        on_answer: OnAnswer | None,
    ) -> None:
        self._store = store
        self._calls = loop_calls_of(store)
        self._is_notified = False  # before the next acquire: its permit is probably kept for it
        self._acquisition = Acquisition(
            store, claims, timeout, ready=ready, on_answer=on_answer, notice=LoopNotice
        )

    @property
    def holder(self) -> str:
        """The name by which it asks, and which its permit has."""
        return self._acquisition.holder

    async def acquire(self) -> tuple[Permit, float]:
        """Return the permit and the monotonic time before it was acquired; raise ``SemaphoreTimeout``."""
        steps = self._acquisition.steps()
        try:
            return await self._driven(steps)
        finally:
            steps.close()
            self._acquisition.end()

    def give_up(self) -> None:
        """Leave the line, and release what may have been acquired; await nothing.

        A thread does it: the coroutine is cancelled, and an acquire of it may be under way, which then finds that its
        holder was released.
        """
        self._acquisition.end()
        for name in self._acquisition.names():
            self._calls.release_soon(name, self._acquisition.claims)

    async def leave(self) -> None:
        """Leave the line after a timeout, before anything else is called; bounded, and without an error.

        A cancellation meanwhile changes nothing, as the releases are queued.
        """
        if self._acquisition.error is not None:  # the caller has waited long enough for the store
            self.give_up()
            return
        self._acquisition.end()
        names, claims = self._acquisition.names(), self._acquisition.claims
        try:
            left = [self._calls.queue(Release(name, claims)) for name in names]
        except BaseException:
            self.give_up()
            raise
        with suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_TIMEOUT_S):
                said = await asyncio.gather(*left, return_exceptions=True)
                for error in filter(None, said):
                    logger.warning("%s was not released, its lease ends: %r", self.holder, error)

    async def _driven(self, steps: Steps) -> tuple[Permit, float]:
        try:
            step = next(steps)
            while True:
                try:
                    said = await self._made(step)
                except StoreUnavailable as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(said)
        except StopIteration as end:
            return cast("tuple[Permit, float]", end.value)

    async def _made(self, step: Step) -> Any:
        if isinstance(step, Acquire):
            return await self._calls.make(
                step, urgent=self._is_notified, dropped=self._acquisition.not_asked
            )
        if isinstance(step, Run):
            return await self._calls.make(step)
        if step.notified is not None:
            self._is_notified = await cast("LoopNotice", step.notified).wait(step.seconds)
        else:
            await asyncio.sleep(step.seconds)
        return None
