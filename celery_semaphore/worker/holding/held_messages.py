"""Hold the messages of refused tasks unacknowledged in this worker until they are granted.

Only the event loop touches them (with gevent and eventlet, the greenlets of Celery's timer). A refusal may come in
another thread, which only queues the message and wakes the loop. M1 to M6 and P1:
docs/maintain/architecture.md, chapter 2.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from celery.worker import state

from ...core.permit import Claim
from ...core.ticket import Ticket
from ...task.celery_types import Consumer
from ...task.protocols import HeldRequest, TaskMessage
from .held_message import HeldMessage
from .pool_line import goes_first
from .prefetch import Prefetch
from .redelivery import Redelivery
from .revoked import Revoked
from .room import CannotKeep, has_room, is_own, refuse_copied
from .session import Session
from .surplus import Surplus
from .timetable import Timetable

logger = logging.getLogger(__name__)

ENDED_AT_ONCE = 100  # in one turn of the loop
RETRY_DELAY_S = 5.0  # after the broker did not take messages back


class HeldMessages:
    """Holds the messages that came by one connection to the broker, with one timer for all."""

    def __init__(
        self,
        c: Consumer,
        redelivery: Redelivery | None,
        in_loop: Callable[[Callable[[], object]], object],
        session: Session,
        leave: Callable[[Ticket, Sequence[Claim]], object],
    ) -> None:
        self.session = session
        session.visit = self._visit
        self._c = c
        self._in_loop = in_loop
        self._leave_line = leave
        self._prefetch = Prefetch(c)
        self._redelivery = redelivery
        self._arrivals: deque[HeldMessage] = deque()
        self._messages: set[HeldMessage] = set()
        self._timetable = Timetable()
        self._wakes_at = inf
        self._revoked = Revoked()
        self._surplus = Surplus(c, session, self._prefetch, in_loop, self._give_back)

    def __len__(self) -> int:
        return len(self._messages)

    def start(self) -> None:
        """Start the session, if messages may be held."""
        if self._redelivery is not None:
            self.session.start()

    def line(self) -> list[HeldMessage]:
        """Return all held messages, the first in line first."""
        return sorted([*self._messages, *self._arrivals], key=lambda held: held.rank)

    def session_for(self, message: TaskMessage) -> str:
        """Return the name of the session that would ask for this message's grant; empty if it cannot be held: P1."""
        redelivery = self._redelivery
        if redelivery is None or not is_own(self._c, message) or not redelivery.may_take(message):
            return ""
        return self.session.name if self._has_room() else ""

    def hold(self, held: HeldMessage) -> None:
        """Hold a message with a session (``session_for``); raise ``CannotKeep``. Any thread may call this."""
        if self._redelivery is None:  # since then all went back, or the connection is lost
            msg = "the worker keeps no more messages"
            raise CannotKeep(msg)
        refuse_copied(self._c, self._redelivery, held.request.message)
        self._arrivals.append(held)
        self._in_loop(self._receive)

    def begin_granted(self, granted: frozenset[str]) -> None:
        """Begin those of these waits that are held here: a release of this worker granted them. For any thread.

        Without a hub the timer begins them: they may wait for a free greenlet, and the caller's releases permits.
        """
        if self._redelivery is not None and (own := self.session.own(granted)):
            if self._c.hub:
                self._in_loop(partial(self._begin_all, own))
            else:
                self._c.timer.call_after(0.0, self._begin_all, (own,))

    def _begin_all(self, nonces: set[str]) -> None:
        for held in self.session.messages(nonces):
            self.begin(held, granted=True)  # M1

    def begin(self, held: HeldMessage, *, granted: bool = False) -> None:
        """Run a held message again, by a fresh request that acquires as a new holder."""
        if held not in self._messages:  # it left while another one waited for a greenlet
            return
        self._leave(held)
        request: HeldRequest | None = None
        try:
            if held.request.revoked():  # or expired: it ends here, without a process
                self._end_wait(held)
                return
            request = held.request.again(held.ticket)
            self._hand_over(held, request, granted=granted)
        except Exception:
            if request is not None:
                state.task_ready(request)  # or the session would wait until a process takes it
            logger.exception("task %s cannot be run again, the broker delivers it", held.request.id)
            held.request.deliver_elsewhere()  # M5

    def _hand_over(self, held: HeldMessage, request: HeldRequest, *, granted: bool) -> None:
        state.task_reserved(request)
        hand_over = partial(self._c.on_task_request, request)
        request.granted = granted
        if granted and held.wait is not None:
            request.grant = (held.wait.ticket, held.wait.claims)
            self.session.unstarted.add(held.wait, request)
            goes_first(self._c, hand_over)
        else:
            hand_over()

    def give_back_all(self) -> None:
        """Return all messages to the broker, in the order of the line, and hold nothing from now on: M3."""
        redelivery, self._redelivery = self._redelivery, None
        waiting = self.line()
        self.forget()
        if not (waiting and redelivery):
            return
        logger.info("the waiting tasks go back to the broker: %d", len(waiting))
        try:
            redelivery.give_back(waiting)
        except Exception as error:  # noqa: BLE001 - any error: the connection is about to be closed
            logger.warning(
                "the broker delivers waiting tasks again when its connection ends: %r", error
            )

    def forget(self) -> None:
        """Forget the messages of a lost connection, which the broker redelivers, and hold nothing from now on: M4."""
        self._redelivery = None
        self.session.end()
        self._arrivals.clear()
        for held in self._messages:
            state.task_ready(held.request)
        self._messages.clear()
        self._timetable.clear()
        self._wakes_at = inf

    def _has_room(self) -> bool:
        held = len(self._messages) + len(self._arrivals)
        return has_room(self._window, held, self.session.name)

    def _visit(self) -> None:
        """Begin granted messages, and end the waits of revoked ones."""
        for held in self.session.granted():
            self.begin(held, granted=True)  # M1
        self._end_revoked()
        if self._window is None:
            self._surplus.leave_to_others(self._messages)  # M6
            self._prefetch.raise_late(self._messages)

    def _end_revoked(self) -> None:
        """End 100 in a turn of the loop, as Celery tells its backend of each."""
        for held in self._revoked.among(self._messages, ENDED_AT_ONCE):
            self._leave(held)
            self._end_wait(held)
        self.session.unstarted.end_revoked()
        if self._revoked.unchecked:
            self._in_loop(self._end_revoked)

    def _end_wait(self, held: HeldMessage) -> None:
        """Remove the wait from the store, which hands its permit, if it was granted one, to the next in line."""
        if held.wait is not None:
            self._leave_line(held.wait.ticket, held.wait.claims)

    def _receive(self) -> None:
        if self._redelivery is None:
            self._arrivals.clear()  # the broker delivers them again: M4
        while self._arrivals:
            held = self._arrivals.popleft()
            if self._window is None:
                self._prefetch.raise_for(held)
            self._messages.add(held)
            state.requests[held.request.id] = held.request  # where Celery's query_task finds it
            self._timetable.add(held)
            if held.wait is not None:
                self.session.add(held, held.wait, held.expected, held.request.made_at)
        self._set_timer()

    @property
    def _window(self) -> int | None:
        return None if self._redelivery is None else self._redelivery.window

    def _leave(self, held: HeldMessage) -> None:
        self._messages.discard(held)
        self._timetable.tidy(self._messages)
        self.session.discard(held)
        state.task_ready(held.request)
        self._prefetch.lower_for(held)

    def _set_timer(self) -> None:
        """Wake when the first message is due; a timer that was set for a later time is ignored."""
        if (at := self._timetable.first()) is not None and at < self._wakes_at:
            self._wakes_at = at
            self._c.timer.call_after(max(at - time.monotonic(), 0.0), self._wake, (at,))

    def _wake(self, at: float) -> None:
        if at != self._wakes_at:
            return
        late, begun = list[HeldMessage](), 0
        for held in self._timetable.due(time.monotonic()):
            if held.due > held.keep_until:
                if held in self._messages:  # M2
                    late.append(held)
                continue
            self.begin(held)  # M1
            begun += 1
            if begun == ENDED_AT_ONCE:  # a thousand that expire at once must not hold up all others
                self._in_loop(partial(self._wake, at))
                break
        else:
            self._wakes_at = inf
        self._give_back(late)
        self._set_timer()

    def _give_back(self, late: list[HeldMessage]) -> None:
        """Return messages to the broker before it redelivers them, or closes the channel because of them."""
        if not (late and self._redelivery):
            return
        late.sort(key=lambda held: held.rank)
        try:
            self._redelivery.give_back(late)
        except Exception as error:  # noqa: BLE001 - if the connection is lost, Celery notices it
            logger.warning("%d waiting tasks could not be given back yet: %r", len(late), error)
            for held in late:
                held.keep_until = time.monotonic() + RETRY_DELAY_S
                self._timetable.add(held)
            return
        for held in late:
            self._leave(held)
