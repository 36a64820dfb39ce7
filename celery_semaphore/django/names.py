"""Remember which task and which worker belong to a permit, as the workers answered lately.

A query takes time of all workers and a second of the calling thread. However many pages are open, a process sends one
query at a time and pauses between two; a page that loads meanwhile gets what is remembered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from threading import Lock, Thread

from ..ops.replies import Replies, TaskAt

REMEMBER = 15.0  # seconds
PAUSE_S = 3.0
LONGEST_S = 2.0  # of a page for one query: a broker that hangs must not keep it


class Names:
    def __init__(
        self,
        ask: Callable[[Collection[str]], Replies],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask = ask
        self._now = now
        self._asking = Lock()
        self._known: Mapping[str, tuple[float, list[TaskAt]]] = {}
        self._problem: str | None = None
        self._rests_until = -1.0

    def remembered(self, task_ids: Collection[str]) -> Replies:
        known = self._known
        return Replies({i: known[i][1] for i in task_ids if i in known}, self._problem)

    def asked(self, task_ids: Collection[str]) -> Replies:
        """Return what is remembered, after a query to the workers if one is due."""
        if not self._knows(task_ids) and self._asking.acquire(blocking=False):
            query = Thread(target=self._query, args=[task_ids], daemon=True)
            query.start()
            query.join(LONGEST_S)
        return self.remembered(task_ids)

    def _query(self, task_ids: Collection[str]) -> None:
        try:
            if self._now() >= self._rests_until:
                self._learn(task_ids)
        finally:
            self._asking.release()

    def _knows(self, task_ids: Collection[str]) -> bool:
        """Return True if no query is needed. Waiting tasks are queried again, for they may run by now."""
        now, known = self._now(), self._known
        return all(
            i in known and known[i][0] > now and any(at.active for at in known[i][1])
            for i in task_ids
        )

    def _learn(self, task_ids: Collection[str]) -> None:
        heard = self._ask(task_ids)
        now = self._now()
        self._rests_until = now + PAUSE_S
        self._problem = heard.problem
        kept = {i: entry for i, entry in self._known.items() if entry[0] > now}
        self._known = kept | {i: (now + REMEMBER, at) for i, at in heard.tasks.items()}
