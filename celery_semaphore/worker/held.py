"""Held messages: of tasks that were refused, unacknowledged in this worker until they are worth another attempt.

Only the event loop touches them (with gevent and eventlet, which have none, the greenlets of Celery's timer). A
refusal may come in another thread: it only queues the message, and wakes the loop. M1 and P1 are rows
of docs/architecture.md, chapter 2.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import Any

from celery.worker import state

from ..core.ticket import TicketFields
from .prefetch import Prefetch
from .redelivery import Redelivery, redelivery_of

logger = logging.getLogger(__name__)

RETRY_DELAY_S = 5.0  # after the broker did not take messages back


@dataclass(slots=True, eq=False)
class Held:
    """One message, by its last request, and what the next one must know. Times are monotonic."""

    request: Any
    ticket: str | None
    due: float  # when to run it again
    keep_until: float  # when the broker must have it back
    raised: bool = False  # whether it raised the prefetch

    @property
    def acts_at(self) -> float:
        return min(self.due, self.keep_until)

    @property
    def turn(self) -> tuple[bool, Any]:
        """Sort by this to have the first in line first; the line knows nothing of one without a ticket."""
        fields = TicketFields.parse(self.ticket)
        return (True, self.due) if fields is None else (False, fields.turn)


class HeldMessages:
    """Those that came by one connection to the broker, with one timer for all."""

    def __init__(self, c: Any, in_loop: Callable[[Callable[[], object]], object]) -> None:
        self._c = c
        self._in_loop = in_loop
        self._prefetch = Prefetch(c)
        self._redelivery: Redelivery | None = redelivery_of(c) if _has_loop(c) else None
        self._arrivals: deque[Held] = deque()
        self._messages: set[Held] = set()
        self._timetable: list[tuple[float, int, Held]] = []  # a heap; some may have left
        self._numbers = count()
        self._wakes_at = inf

    def __len__(self) -> int:
        return len(self._messages)

    def hold(self, held: Held) -> bool:
        """Hold a message; return whether that is possible. From any thread."""
        if not self._takes(held.request.message):
            return False
        self._arrivals.append(held)
        self._in_loop(self._receive)
        return True

    def begin(self, held: Held) -> None:
        """Run a held message again: by a fresh request, which another holder's permit is acquired for."""
        self._leave(held)
        try:
            request = held.request.again(held.ticket)
            if not request.revoked():  # nor expired: these end here, without a process
                state.task_reserved(request)
                self._c.on_task_request(request)
        except Exception:
            logger.exception(
                "task %s could not be run again, the broker delivers it", held.request.id
            )
            held.request.came_to_nothing()  # M5

    def give_back_all(self) -> None:
        """Give everything back to the broker, in the order of the line, and hold nothing from now on: M3."""
        redelivery, self._redelivery = self._redelivery, None
        waiting = sorted([*self._messages, *self._arrivals], key=lambda held: held.turn)
        self.forget()
        if not (waiting and redelivery):
            return
        logger.info("%d waiting tasks go back to the broker", len(waiting))
        try:
            redelivery.give_back([held.request.message for held in waiting])
        except Exception as error:  # noqa: BLE001 - whatever it is, the connection is about to be closed
            logger.warning(
                "the broker delivers waiting tasks again when its connection ends: %r", error
            )

    def forget(self) -> None:
        """Forget what a connection delivered that is lost: the broker delivers it again: M4. Hold nothing any more."""
        self._redelivery = None
        self._arrivals.clear()
        for held in self._messages:
            state.task_ready(held.request)
        self._messages.clear()
        self._timetable.clear()
        self._wakes_at = inf

    def _takes(self, message: Any) -> bool:
        # P5: only the channel of the worker's own queues has a prefetch that can be raised; that of granted ones is the
        # number of processes.
        if self._redelivery is None or message.channel is not self._c.task_consumer.channel:
            return False
        try:
            return self._redelivery.takes(message)
        except self._c.connection_errors as error:
            logger.warning("a waiting task is published again, not held: %r", error)
            return False

    def _receive(self) -> None:
        while self._arrivals:
            held = self._arrivals.popleft()
            held.raised = self._prefetch.increase()
            self._messages.add(held)
            state.requests[held.request.id] = held.request  # where Celery's query_task finds it
            self._note(held)
        self._set_timer()

    def _note(self, held: Held) -> None:
        heappush(self._timetable, (held.acts_at, next(self._numbers), held))

    def _leave(self, held: Held) -> None:
        self._messages.discard(held)
        state.task_ready(held.request)
        if held.raised:
            self._prefetch.decrease()
            held.raised = False

    def _set_timer(self) -> None:
        """Wake when the first one is due; a timer that was set for later finds that it is not meant."""
        if self._timetable and (at := self._timetable[0][0]) < self._wakes_at:
            self._wakes_at = at
            self._c.timer.call_after(max(at - time.monotonic(), 0.0), self._wake, (at,))

    def _wake(self, at: float) -> None:
        if at != self._wakes_at:
            return
        self._wakes_at = inf
        late: list[Held] = []
        for held in self._due():
            if held.due <= held.keep_until:
                self.begin(held)  # M1
            else:  # M2
                late.append(held)
        self._give_back(late)
        self._set_timer()

    def _due(self) -> Iterable[Held]:
        now = time.monotonic()
        while self._timetable and self._timetable[0][0] <= now:
            held = heappop(self._timetable)[2]
            if held in self._messages:
                yield held

    def _give_back(self, late: list[Held]) -> None:
        """Give back those that the broker would deliver to another worker soon, or close the channel for."""
        if not (late and self._redelivery):
            return
        late.sort(key=lambda held: held.turn)
        try:
            self._redelivery.give_back([held.request.message for held in late])
        except Exception as error:  # noqa: BLE001 - if the connection is lost Celery finds it out
            logger.warning("%d waiting tasks could not be given back yet: %r", len(late), error)
            for held in late:
                held.keep_until = time.monotonic() + RETRY_DELAY_S
                self._note(held)
            return
        for held in late:
            self._leave(held)


def _has_loop(c: Any) -> bool:
    """Tell whether Celery's timer runs where messages are received, not in a thread of its own: P8."""
    return c.hub is not None or bool(getattr(c.pool, "is_green", False))
