"""Keep the messages of refused tasks unacknowledged in this worker until they are granted.

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

from celery.worker import state

from ...core.claim import Claim
from ...core.store import Outgoing, Store
from ...core.ticket import Ticket
from ...task.celery_types import Consumer
from ...task.protocols import KeptRequest, TaskMessage
from ..celery_internals import pool_size
from .kept_message import CannotKeep, KeptMessage, Revoked
from .pool_line import goes_first
from .prefetch import Prefetch
from .redelivery import Redelivery, has_room, is_own, refuse_copied
from .session import Session
from .surplus import Surplus
from .timetable import Timetable

logger = logging.getLogger(__name__)

ENDED_AT_ONCE = 100  # in one turn of the loop
RETRY_DELAY_S = 5.0  # after the broker did not take messages back


class KeptMessages:
    """Keeps the messages that came by one connection to the broker, with one timer for all."""

    def __init__(
        self,
        c: Consumer,
        redelivery: Redelivery | None,
        in_loop: Callable[[Callable[[], object]], object],
        store: Store,
        *,
        leave: Callable[[Ticket, Sequence[Claim]], object],
        found: Callable[[Outgoing], None],
        epoch: int | None = None,
    ) -> None:
        processes = partial(pool_size, c.pool)
        self.session = Session(store, in_loop, self._visit, found, epoch=epoch, processes=processes)
        self._c = c
        self._in_loop = in_loop
        self._leave_line = leave
        self._prefetch = Prefetch(c)
        self._redelivery = redelivery
        self._arrivals: deque[KeptMessage] = deque()
        self._messages: set[KeptMessage] = set()
        self._timetable = Timetable(c.timer, self._act)
        self._revoked = Revoked()
        self._surplus = Surplus(c, self.session, self._prefetch, in_loop, self._give_back)

    def __len__(self) -> int:
        return len(self._messages)

    def start(self) -> None:
        """Start the session, if messages may be kept."""
        if self._redelivery is not None:
            self.session.start()

    def line(self) -> list[KeptMessage]:
        """Return all kept messages, the first in line first."""
        return sorted([*self._messages, *self._arrivals], key=lambda kept: kept.rank)

    def session_for(self, message: TaskMessage) -> str:
        """Return the name of the session that would ask for this message's grant; empty if it cannot be kept: P1."""
        redelivery = self._redelivery
        if redelivery is None or not is_own(self._c, message) or not redelivery.may_take(message):
            return ""
        return self.session.name if self._has_room() else ""

    def keep(self, kept: KeptMessage) -> None:
        """Keep a message with a session (``session_for``); raise ``CannotKeep``. Any thread may call this."""
        if self._redelivery is None:  # since then all went back, or the connection is lost
            msg = "the worker keeps no more messages"
            raise CannotKeep(msg)
        refuse_copied(self._c, self._redelivery, kept.request.message)
        self._arrivals.append(kept)
        self._in_loop(self._receive)

    def begin_granted(self, granted: frozenset[str]) -> None:
        """Begin those of these waits that are kept here: a release of this worker granted them. For any thread.

        Without a hub the timer begins them: they may wait for a free greenlet, and the caller's releases permits.
        """
        if self._redelivery is not None and (own := self.session.own(granted)):
            if self._c.hub:
                self._in_loop(partial(self._begin_all, own))
            else:
                self._c.timer.call_after(0.0, self._begin_all, (own,))

    def _begin_all(self, nonces: set[str]) -> None:
        for kept in self.session.messages(nonces):
            self.begin(kept, granted=True)  # M1

    def begin(self, kept: KeptMessage, *, granted: bool = False) -> None:
        """Run a kept message again, by a fresh request that acquires as a new holder."""
        if kept not in self._messages:  # it left while another one waited for a greenlet
            return
        self._leave(kept)
        request: KeptRequest | None = None
        try:
            if kept.request.revoked():  # or expired: it ends here, without a process
                self._end_wait(kept)
                return
            request = kept.request.again(kept.ticket)
            self._hand_over(kept, request, granted=granted)
        except Exception:
            if request is not None:
                state.task_ready(request)  # or the session would wait until a process takes it
            logger.exception("task %s cannot be run again, the broker delivers it", kept.request.id)
            kept.request.deliver_elsewhere()  # M5

    def _hand_over(self, kept: KeptMessage, request: KeptRequest, *, granted: bool) -> None:
        state.task_reserved(request)
        hand_over = partial(self._c.on_task_request, request)
        request.granted = granted
        if granted and kept.wait is not None:
            request.grant = (kept.wait.ticket, kept.wait.claims)
            self.session.unstarted.add(kept.wait, request)
            goes_first(self._c, hand_over)
        else:
            hand_over()

    def give_back_all(self) -> None:
        """Return all messages to the broker, in the order of the line, and keep nothing from now on: M3."""
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
        """Forget the messages of a lost connection, which the broker redelivers, and keep nothing from now on: M4."""
        self._redelivery = None
        self.session.end()
        self._arrivals.clear()
        for kept in self._messages:
            state.task_ready(kept.request)
        self._messages.clear()
        self._timetable.clear()

    def _has_room(self) -> bool:
        kept = len(self._messages) + len(self._arrivals)
        return has_room(self._window, kept, self.session.name)

    def _visit(self) -> None:
        """Begin granted messages, and end the waits of revoked ones."""
        for kept in self.session.granted():
            self.begin(kept, granted=True)  # M1
        self._end_revoked()
        if self._window is None:
            self._surplus.leave_to_others(self._messages)  # M6
            self._prefetch.raise_late(self._messages)

    def _end_revoked(self) -> None:
        """End 100 in a turn of the loop, as Celery tells its backend of each."""
        for kept in self._revoked.among(self._messages, ENDED_AT_ONCE):
            self._leave(kept)
            self._end_wait(kept)
        self.session.unstarted.end_revoked()
        if self._revoked.unchecked:
            self._in_loop(self._end_revoked)

    def _end_wait(self, kept: KeptMessage) -> None:
        """Remove the wait from the store, which hands its permit, if it was granted one, to the next in line."""
        if kept.wait is not None:
            self._leave_line(kept.wait.ticket, kept.wait.claims)

    def _receive(self) -> None:
        if self._redelivery is None:
            self._arrivals.clear()  # the broker delivers them again: M4
        while self._arrivals:
            kept = self._arrivals.popleft()
            if self._window is None:
                self._prefetch.raise_for(kept)
            self._messages.add(kept)
            state.requests[kept.request.id] = kept.request  # where Celery's query_task finds it
            self._timetable.add(kept)
            if kept.wait is not None:
                self.session.add(kept, kept.wait, kept.expected, kept.request.made_at)
        self._timetable.set_timer()

    @property
    def _window(self) -> int | None:
        return None if self._redelivery is None else self._redelivery.window

    def _leave(self, kept: KeptMessage) -> None:
        self._messages.discard(kept)
        self._timetable.tidy(self._messages)
        self.session.discard(kept)
        state.task_ready(kept.request)
        self._prefetch.lower_for(kept)

    def _act(self) -> None:
        """Begin what is due, and give back what was kept for too long."""
        late, begun = list[KeptMessage](), 0
        for kept in self._timetable.due():
            if kept.due > kept.keep_until:
                if kept in self._messages:  # M2
                    late.append(kept)
                continue
            self.begin(kept)  # M1
            begun += 1
            if begun == ENDED_AT_ONCE:  # a thousand that expire at once must not hold up all others
                self._in_loop(self._act)
                break
        self._give_back(late)
        self._timetable.set_timer()

    def _give_back(self, late: list[KeptMessage]) -> None:
        """Return messages to the broker before it redelivers them, or closes the channel because of them."""
        if not (late and self._redelivery):
            return
        late.sort(key=lambda kept: kept.rank)
        try:
            self._redelivery.give_back(late)
        except Exception as error:  # noqa: BLE001 - if the connection is lost, Celery notices it
            logger.warning("%d waiting tasks could not be given back yet: %r", len(late), error)
            for kept in late:
                kept.keep_until = time.monotonic() + RETRY_DELAY_S
                self._timetable.add(kept)
            return
        for kept in late:
            self._leave(kept)
