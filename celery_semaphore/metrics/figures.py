"""Figures: which metrics an event changes, and by how much."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..core.events import (
    AttemptRefusedEvent,
    CopyDroppedEvent,
    Event,
    Loss,
    MessageBroughtBackEvent,
    MessageParkedEvent,
    MessagePutBackEvent,
    PermitAcquiredEvent,
    PermitEvent,
    PermitLostEvent,
    PermitReleasedEvent,
    PermitRestoredEvent,
    StoreCallEvent,
    WaitEnd,
    WaitEndedEvent,
)
from ..core.permit import Permit
from .catalogue import (
    ACQUIRED,
    BROUGHT_BACK,
    COPIES,
    ENDED_UNRUN,
    HELD_SECONDS,
    LOST,
    PARKED,
    PUT_BACK,
    REFUSED,
    RESTORED,
    STORE_ERRORS,
    STORE_SECONDS,
    TAKE_UP_SECONDS,
    WAIT_SECONDS,
)
from .labels import BoundedLabel, semaphore_label, task_label
from .metric import Metric

Figure = tuple[Metric, tuple[str, ...], float]  # a metric, its labels, and what to add or to record
_MESSAGES = {
    MessageParkedEvent: PARKED,
    MessagePutBackEvent: PUT_BACK,
    MessageBroughtBackEvent: BROUGHT_BACK,
    CopyDroppedEvent: COPIES,
}


class Figures:
    """Turns events into figures with bounded labels.

    An event of several semaphores counts once for each. No label is ever a key, not even a part of one.
    """

    def __init__(self) -> None:
        self._semaphores = BoundedLabel()
        self._tasks = BoundedLabel()

    def of(self, event: Event, task: str = "") -> Iterator[Figure]:
        """Yield the figures of an event; ``task`` names the one of a permit that was lost or restored."""
        match event:
            case StoreCallEvent(operation, took, failed):
                yield _store_call(operation, took, failed=failed)
            case AttemptRefusedEvent(semaphores, name, reason, answered):
                yield from self._each(REFUSED, semaphores, name, str(reason))
                if not answered:
                    yield _store_call("acquire", 0.0, failed=True)
            case WaitEndedEvent(semaphores, name, how):
                yield from self._each(ENDED_UNRUN, semaphores, name, str(how))
            case (
                MessageParkedEvent(semaphores, name)
                | MessagePutBackEvent(semaphores, name)
                | MessageBroughtBackEvent(semaphores, name)
                | CopyDroppedEvent(semaphores, name)
            ):
                yield from self._each(_MESSAGES[type(event)], semaphores, name)
            case _:
                yield from self._of_permit(event, task)

    def _of_permit(self, event: PermitEvent, task: str) -> Iterator[Figure]:
        names = _semaphores(event.permit)
        match event:
            case PermitAcquiredEvent(_, name, waited, took):
                yield from self._each(ACQUIRED, names, name)
                yield from self._times(WAIT_SECONDS, names, waited)
                # A token is the time in microseconds, or just above it. A permit that was granted before its task came
                # keeps the token of the grant; any other has one of the time at which it was acquired.
                if (took_up := event.permit.acquired_at - event.permit.token / 1_000_000) > 0:
                    yield from self._times(TAKE_UP_SECONDS, names, took_up)
                yield _store_call("acquire", took, failed=False)
            case PermitReleasedEvent(_, held):
                yield from self._times(HELD_SECONDS, names, held)
            case PermitLostEvent(_, _, loss):
                yield from self._each(LOST, names, task, str(loss))
            case PermitRestoredEvent():
                yield from self._each(RESTORED, names, task)

    def zeros(self, semaphores: Iterable[str], task: str) -> Iterator[Figure]:
        """Yield the counters of a task that must exist before they count.

        An alarm on the increase of a counter misses the first event if that event makes the counter.
        """
        names = tuple(semaphores)
        series: list[tuple[Metric, tuple[str, ...]]] = [(ACQUIRED, ())]
        series += [(LOST, (str(loss),)) for loss in Loss]
        series += [(ENDED_UNRUN, (str(end),)) for end in WaitEnd]
        for metric, more in series:
            for _, labels, _ in self._each(metric, names, task, *more):
                yield metric, labels, 0.0

    def _each(
        self, metric: Metric, semaphores: Iterable[str], task: str, *labels: str
    ) -> Iterator[Figure]:
        for semaphore in semaphores:  # a task without any must not take one of the few values
            label = self._semaphores(semaphore_label(semaphore))
            yield metric, (label, self._tasks(task_label(task)), *labels), 1.0

    def _times(self, metric: Metric, semaphores: Iterable[str], seconds: float) -> Iterator[Figure]:
        for semaphore in semaphores:
            yield metric, (self._semaphores(semaphore_label(semaphore)),), max(seconds, 0.0)


def _store_call(operation: str, took: float, *, failed: bool) -> Figure:
    if failed:
        return STORE_ERRORS, (operation,), 1.0
    return STORE_SECONDS, (operation,), took


def _semaphores(permit: Permit) -> tuple[str, ...]:
    # Without repetitions, in order.
    return tuple(dict.fromkeys(claim.semaphore for claim in permit.claims))
