"""LimitedAutoscaler: a ``worker_autoscaler`` that shrinks the pool although waiting tasks come back all the time."""

from __future__ import annotations

from collections import deque
from time import monotonic
from typing import Any

from celery.worker import state
from celery.worker.autoscale import Autoscaler


class LimitedAutoscaler(Autoscaler):  # type: ignore[misc] # Celery ships no types
    """Keeps as many processes as tasks were there at once during the last ``keepalive`` seconds.

    Celery's own shrinks the pool only if no message arrived for that long. But a parked task that is granted a permit
    arrives again: while two permits go from task to task, all processes that the first moments needed would stay.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._seen: deque[tuple[float, int]] = deque()  # when, and how many; of falling numbers

    @property
    def qty(self) -> int:
        """The most tasks that were there at once lately: prefetched and running, without those that wait."""
        now, count = monotonic(), len(state.reserved_requests)
        while self._seen and self._seen[-1][1] <= count:  # they never are the most again
            self._seen.pop()
        self._seen.append((now, count))
        while self._seen[0][0] < now - self.keepalive:
            self._seen.popleft()
        return self._seen[0][1]

    def scale_down(self, n: int) -> Any:
        """Shrink by so many processes at once: ``qty`` has waited for as long as Celery's own would."""
        return self._shrink(n)
