"""Remember which task and which worker belong to a permit, as the workers answered lately.

A query takes time of all workers and a second of the calling thread. However many pages are open, a process sends one
query at a time, for the tasks of all of them, and pauses between two. One query in each pause is about a task that no
query was about before: a search for it must not end with the answer that no worker knows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from threading import Lock, Thread

from ..ops.replies import Replies, TaskAt

REMEMBER = 15.0  # seconds
PAUSE_S = 3.0
LONGEST_S = 2.0  # of a page for a query: a broker that hangs must not keep it
SHOWN_S = 10.0  # for which a page that does not ask again counts as open


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
        self._shown: Mapping[str, float] = {}  # by the ids that pages show: until when
        self._asked: Mapping[
            str, float
        ] = {}  # by the ids that a query was about: until when that counts
        self._known: Mapping[str, tuple[float, list[TaskAt]]] = {}
        self._problem: str | None = None
        self._rests_until = -1.0
        self._interrupted = False  # this rest, by a query

    def remembered(self, task_ids: Collection[str]) -> Replies:
        known = self._known
        return Replies({i: known[i][1] for i in task_ids if i in known}, self._problem)

    def asked(self, task_ids: Collection[str]) -> Replies:
        """Return what is remembered, after a query to the workers if one is due."""
        self._shown = _lasting(self._shown, self._now()) | dict.fromkeys(
            task_ids, self._now() + SHOWN_S
        )
        until = time.monotonic() + LONGEST_S
        # Another page's query may be about other tasks: a new one waits for its end.
        patience = LONGEST_S if self._are_new(task_ids) else 0.0
        if self._is_due(task_ids) and self._asking.acquire(timeout=patience):
            query = Thread(target=self._query, args=[task_ids], daemon=True)
            query.start()
            query.join(max(until - time.monotonic(), 0.0))
        return self.remembered(task_ids)

    def _query(self, task_ids: Collection[str]) -> None:
        try:
            if self._is_due(task_ids):  # else the query that it waited for was about these, too
                self._interrupted = self._now() < self._rests_until
                self._learn({*task_ids, *_lasting(self._shown, self._now())})
        finally:
            self._asking.release()

    def _is_due(self, task_ids: Collection[str]) -> bool:
        if self._now() < self._rests_until:
            return not self._interrupted and self._are_new(task_ids)
        return not self._knows(task_ids)

    def _are_new(self, task_ids: Collection[str]) -> bool:
        return bool(set(task_ids) - _lasting(self._asked, self._now()).keys())

    def _knows(self, task_ids: Collection[str]) -> bool:
        """Return True if no query is needed. Waiting tasks are queried again, for they may run by now."""
        now, known = self._now(), self._known
        return all(
            i in known and known[i][0] > now and any(at.active for at in known[i][1])
            for i in task_ids
        )

    def _learn(self, task_ids: Collection[str]) -> None:
        now = self._now()
        self._asked = _lasting(self._asked, now) | dict.fromkeys(task_ids, now + REMEMBER)
        heard = self._ask(task_ids)
        now = self._now()
        self._rests_until = now + PAUSE_S
        self._problem = heard.problem
        kept = {i: entry for i, entry in self._known.items() if entry[0] > now}
        self._known = kept | {i: (now + REMEMBER, at) for i, at in heard.tasks.items()}


def _lasting(until: Mapping[str, float], now: float) -> dict[str, float]:
    return {task_id: end for task_id, end in until.items() if end > now}
