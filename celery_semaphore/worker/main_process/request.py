"""LimitedRequest: one delivery of a limited task, as the worker's main process sees it.

Celery calls ``Request`` at every end of a task. Two rules hold at every end:

* With early acks, the message is acknowledged when the permit is noted, or when the message was published again.
  (Celery does it when a process accepts the task.) If the process dies before that, the message stays unacknowledged.
* The permit is released when the process has reported the end, or once that process is gone.
"""

from __future__ import annotations

import logging
import os
import time
from functools import partial
from typing import Any

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from billiard.exceptions import Terminated, TimeLimitExceeded
from celery.concurrency.base import BasePool
from celery.exceptions import WorkerLostError
from celery.worker import state
from celery.worker.request import Request

from ...errors import PermitLost
from ..holding.broker_reply import BrokerReply
from ..limiter import limiter_of
from ..messages.fanout import came_by_fanout
from ..messages.header_names import EPOCH, FANOUT, HOLDER, OF_ONE_WAIT, remove_internal
from ..messages.own_queue import queue_by_tag
from ..messages.ticket_header import TICKET, is_sent_back, message_id_of, refusals_of
from ..permits.process import is_gone
from ..pool_process.refused import Refused
from .refused_request import RefusedRequestMixin

logger = logging.getLogger(__name__)

DIED = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)
# The pool makes these errors while the process may still run the task. After any other one no process runs it.
MAY_RUN = (*DIED, TimeLimitExceeded)


class LimitedRequestMixin(RefusedRequestMixin):
    """Limits the requests of a task; put it before the task's own ``Request`` class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limiter = limiter_of(self._app)
        self._connection = self._limiter.worker.connections
        self._by_tag = queue_by_tag(self._limiter.worker.consumer, self.message.delivery_info)
        self._accepting = False
        self._loss: str | None = None
        self._returned = False  # whether the message was returned to the broker
        self._reply = BrokerReply()
        self._since = self.made_at = time.monotonic()  # when the broker delivered the message
        self.granted = False  # whether the message was held until it was granted
        self._drop_foreign_ticket()
        # Unique for each delivery: two runs of one task id can overlap, and are two holders.
        self.holder = f"{self.id}:{os.urandom(8).hex()}"
        came_by = self._delivery_info
        if not came_by["exchange"]:  # a retry must go to the home queue, not to its granted queue
            queue = came_by["routing_key"] or ""
            came_by["routing_key"] = self._limiter.home_of(queue)
            self.by_granted_queue = came_by["routing_key"] != queue
        sent = self._request_dict
        self._waits = TICKET in sent
        remove_internal(sent)  # a sender's semaphore_permit must not pass for a permit
        expire = self._limiter.settings.copies_expire
        self._message_id = message_id_of(sent, came_by["redelivered"], expire)
        self.refusals = refusals_of(sent)  # the attempts without a permit in this wait
        if self._limiter.loses_fanouts and came_by_fanout(self._app, came_by):
            sent[FANOUT] = came_by["exchange"]
        sent[HOLDER] = self.holder
        sent[EPOCH] = self._limiter.process.store.epoch
        sent |= self.ways_to_wait()

    def _drop_foreign_ticket(self) -> None:
        """Ignore a ticket header that no worker wrote: a store does not accept arbitrary text."""
        header = self._request_dict.get(TICKET)
        if header is None or is_sent_back(header, self.id):
            return
        del self._request_dict[TICKET]
        logger.warning(
            "task %.60s: its header %s is none of a waiting task's and is ignored (%s of %d characters)",
            self.id,
            TICKET,
            type(header).__name__,
            len(str(header)),
        )

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # The subclass that Celery generates has an on_success that does not call ours.
        super().__init_subclass__(**kwargs)
        if generated := cls.__dict__.get("on_success"):

            def on_success(self: LimitedRequestMixin, result: Any, **kwargs: Any) -> None:
                failed, _, _ = result
                try:
                    generated(self, result, **kwargs)
                finally:
                    if not failed:  # else on_failure was called, and may have returned the message
                        self._ended(reported=True)

            cls.on_success = on_success

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """Watch for the permit, now that a process has accepted the task."""
        self._accepting = True
        try:
            super().on_accepted(pid, time_accepted)
        finally:
            self._accepting = False
        self._limiter.process.ledger.watch(self.holder, self)

    def acknowledge(self) -> None:
        """Acknowledge the message, except when Celery wants to before the task has a permit."""
        if self._accepting and not self.task.acks_late:
            return
        self._reply.give(super().acknowledge)

    def reject(self, requeue: bool = False) -> None:
        """Reject the message, unless it was acknowledged meanwhile."""
        self._returned = requeue
        self._reply.give(partial(super().reject, requeue))

    def permit_held(self, since: float) -> None:
        """Acknowledge early if the task does, and forget the wait, so that no retry inherits it."""
        self.granted, self.grant = False, None
        for name in OF_ONE_WAIT:
            self._request_dict.pop(name, None)
        if not self.task.acks_late:
            self.acknowledge()
        self.started(since)

    def on_failure(
        self, exc_info: ExceptionInfo, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Handle every end but success; Celery has no other entry for a refusal, which is one of them."""
        # Read the notes first: a note that was entered after the end would never be removed.
        self._limiter.drain()
        exc = _bare(exc_info.exception)
        if isinstance(exc, Refused):
            self.on_refused(exc.attempt)
        elif self._died_without_permit(exc):
            self._deliver_again()
        else:
            self._on_failed(exc, exc_info, send_failed_event, return_ok)

    def _on_failed(
        self, exc: Any, exc_info: ExceptionInfo, send_failed_event: bool, return_ok: bool
    ) -> None:
        """Let Celery handle the end, and release the permit."""
        self.failed_without_permit(exc)
        if self._loss is not None and isinstance(exc, DIED):
            exc_info, return_ok = self._lost_permit(), False
        try:
            super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)
        finally:
            # An error can leave Celery's tracer, such as a soft time limit that strikes right before or after the run.
            # The process goes on after it: to wait until it is gone would keep the permit for all that time.
            self._ended(reported=return_ok or not isinstance(exc, MAY_RUN))

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Handle an exceeded time limit; at a hard one the process is killed after this call."""
        super().on_timeout(soft, timeout)
        if not soft:
            self._ended(reported=False)

    def terminate(self, pool: BasePool, signal: str | int | None = None) -> None:
        """Handle a revoke of a running task: its process is being killed."""
        self._accepting = False  # on_accepted may call this, and a revoked message must be acked
        super().terminate(pool, signal)
        self._ended(reported=False)

    def cancel(self, pool: BasePool, signal: str | int | None = None, **options: bool) -> None:
        """Handle a cold shutdown or a lost connection: the process is being killed."""
        self._limiter.drain()
        if self._limiter.process.ledger.is_over(self.holder):
            return  # its body has ended and its message is not acknowledged yet: it would run twice
        super().cancel(pool, signal, **options)
        if self.worker_pid is not None and self._limiter.notes is not None:
            self._limiter.process.ledger.ended(self.holder, partial(is_gone, self.worker_pid))

    def _ended(self, *, reported: bool) -> None:
        """Release the permit: at once if the process ``reported`` the end, else once that process is gone."""
        self._limiter.drain()
        ledger = self._limiter.process.ledger
        cancelled = self._already_cancelled
        if not self.task.acks_late and not self.acknowledged and not cancelled:
            self.acknowledge()
        message_id = None if self._returned or cancelled else self._message_id
        then = None if cancelled else self.after_release(returned=self._returned)
        if reported or self.worker_pid is None:
            ledger.ended(self.holder, None, message_id, then)
        elif self._limiter.notes is not None:
            ledger.ended(self.holder, partial(is_gone, self.worker_pid), message_id, then)
        # Else the task runs in this process, which goes on: task_postrun releases the permit.

    def _died_without_permit(self, exc: BaseException) -> bool:
        """Return whether an early-ack task must be delivered again, because its body never began.

        This happens once only: a key function that kills its process must not do so for ever. But a message of a
        granted queue may be a redelivery since it found no process; it goes to its home queue, as another message.
        """
        return (
            isinstance(exc, DIED)
            and not self.task.acks_late
            and not self.acknowledged
            and not self._already_revoked
            and not self._already_cancelled
            and not self._limiter.process.ledger.holds(self.holder)
            and (self.by_granted_queue or not self.message.delivery_info.get("redelivered"))
        )

    def _deliver_again(self) -> None:
        state.task_ready(self)
        logger.warning("task %s lost its process before it had a permit, delivered again", self.id)
        self.reject(requeue=True)
        self._ended(reported=False)

    def permit_lost(self, reason: str) -> None:
        """End the task if its options say so: its lease expired while it runs."""
        if not self.task.semaphore_options.terminates(self._limiter.settings):
            return
        self._loss = reason
        if self.worker_pid is not None:
            runs = partial(self._limiter.process.ledger.has, self.holder)
            self._limiter.kill(self.worker_pid, runs)

    def _lost_permit(self) -> ExceptionInfo:
        try:
            msg = f"task {self.id}: {self._loss}"
            raise PermitLost(msg)  # noqa: TRY301 - Celery wants its traceback
        except PermitLost:
            return ExceptionInfo()


class LimitedRequest(LimitedRequestMixin, Request):  # type: ignore[misc] # Celery ships no types
    """The ``Request`` class of a limited task."""


def _bare(exc: Any) -> BaseException:
    bare: BaseException = exc.exc if isinstance(exc, ExceptionWithTraceback) else exc
    return bare
