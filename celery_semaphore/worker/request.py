"""LimitedRequest: one delivery of a limited task, as the worker's main process sees it.

Celery calls ``Request`` at every end of a task. What must hold, whatever the end:

* with early acks, the message is acknowledged when the permit is noted (not when a process accepts
  the task, as Celery does), or when it went back; a process that dies before leaves it unacknowledged
* the permit is released when the process reported the end, or once that process is gone
"""

from __future__ import annotations

import logging
import os
from typing import Any

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from billiard.exceptions import Terminated
from celery.exceptions import WorkerLostError
from celery.worker import state
from celery.worker.request import Request

from ..errors import PermitLost
from .headers import EPOCH, HOLDER, TICKET
from .limiter import limiter_of
from .process import is_gone
from .refusal import Refused

logger = logging.getLogger(__name__)

DIED = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)


class LimitedRequestMixin:
    """Goes before a task's own ``Request`` class."""

    id: str
    message: Any
    task: Any
    worker_pid: int | None
    acknowledged: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._limiter = limiter_of(self._app)  # type: ignore[attr-defined]
        self._connection = self._limiter.connections
        self._accepting = False
        self._loss: str | None = None
        # Unique for each delivery: two runs of one task id do overlap, and are two holders.
        self.holder = f"{self.id}:{os.urandom(8).hex()}"
        sent: dict[str, Any] = self._request_dict  # type: ignore[attr-defined]
        sent[HOLDER] = self.holder
        sent[EPOCH] = self._limiter.side.store.epoch

    def __init_subclass__(cls, **kwargs: Any) -> None:
        # Celery generates a subclass whose on_success does not call ours.
        super().__init_subclass__(**kwargs)
        if generated := cls.__dict__.get("on_success"):

            def on_success(self: LimitedRequestMixin, result: Any, **kwargs: Any) -> None:
                generated(self, result, **kwargs)
                failed, _, _ = result
                if not failed:  # else on_failure was called, and may have sent the message back
                    self._ended(reported=True)

            cls.on_success = on_success  # type: ignore[attr-defined]

    # -- the beginning

    def on_accepted(self, pid: int, time_accepted: float) -> None:
        """A process took the task; it has no permit yet."""
        self._accepting = True
        try:
            super().on_accepted(pid, time_accepted)  # type: ignore[misc]
        finally:
            self._accepting = False
        self._limiter.side.ledger.watch(self.holder, self)

    def acknowledge(self) -> None:
        """Acknowledge, except where Celery would before the task has a permit."""
        if self._accepting and not self.task.acks_late:
            return
        super().acknowledge()  # type: ignore[misc]

    def permit_held(self) -> None:
        """The wait is over: forget it, so that no retry inherits it; and the moment of the early ack."""
        for name in (HOLDER, EPOCH, TICKET):
            self._request_dict.pop(name, None)  # type: ignore[attr-defined]
        if not self.task.acks_late:
            self.acknowledge()

    # -- going back

    def went_back(self) -> None:
        """The broker has the message that takes this one's place."""
        self.acknowledge()

    def came_to_nothing(self) -> None:
        """The message could not be published: the broker shall deliver this one again."""
        self.reject(requeue=True)  # type: ignore[attr-defined]

    def _go_back(self, refused: Refused) -> None:
        state.task_ready(self)
        ledger = self._limiter.side.ledger
        if refused.asked:
            ledger.refused(self.holder)
        else:
            ledger.ended(self.holder)  # the store may have said yes to nobody
        self.send_event("task-saturated", reason=refused.reason)  # type: ignore[attr-defined]
        if refused.delay is None:
            self.acknowledge()
        elif self._connection != self._limiter.connections:
            # The broker has given this message to somebody else by now: a copy would run twice.
            logger.info("task %s was delivered again elsewhere, not put back", self.id)
        else:
            self._limiter.publisher.put_back(self, refused.ticket, refused.delay)

    # -- the ends

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Every end but success."""
        self._limiter.drain()
        exc = _bare(exc_info.exception)
        if isinstance(exc, Refused):
            self._go_back(exc)
            return
        if self._died_without_permit(exc):
            self._deliver_again()
            return
        if self._loss is not None and isinstance(exc, DIED):
            exc_info, return_ok = self._lost_permit(), False
        try:
            super().on_failure(  # type: ignore[misc]
                exc_info, send_failed_event=send_failed_event, return_ok=return_ok
            )
        finally:
            self._ended(reported=return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """A time limit passed; at a hard one the process is killed after this."""
        super().on_timeout(soft, timeout)  # type: ignore[misc]
        if not soft:
            self._ended(reported=False)

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """Revoked while it runs: the process is being killed."""
        self._accepting = False  # on_accepted may get here, and the revoked message must be acked
        super().terminate(pool, signal)  # type: ignore[misc]
        self._ended(reported=False)

    def cancel(self, pool: Any, signal: Any = None, emit_retry: bool = True) -> None:
        """A cold shutdown, or a lost connection: the process is being killed."""
        super().cancel(pool, signal, emit_retry)  # type: ignore[misc]
        self._ended(reported=False)

    def _ended(self, *, reported: bool) -> None:
        self._limiter.drain()
        ledger = self._limiter.side.ledger
        cancelled: bool = self._already_cancelled  # type: ignore[attr-defined]
        if not self.task.acks_late and not self.acknowledged and not cancelled:
            self.acknowledge()
        if self._limiter.notes is None:
            return  # tasks run in this process, where task_postrun tells the end of each
        if reported or self.worker_pid is None:
            ledger.ended(self.holder)
        else:
            pid = self.worker_pid
            ledger.ended(self.holder, gone=lambda: is_gone(pid))

    def _died_without_permit(self, exc: Any) -> bool:
        """Whether an early-ack task must be delivered again: its body never began.

        Once only: a key function that kills its process must not do so for ever.
        """
        return (
            isinstance(exc, DIED)
            and not self.task.acks_late
            and not self.acknowledged
            and not self._already_revoked  # type: ignore[attr-defined]
            and not self._already_cancelled  # type: ignore[attr-defined]
            and not self._limiter.side.ledger.holds(self.holder)
            and not self.message.delivery_info.get("redelivered")
        )

    def _deliver_again(self) -> None:
        state.task_ready(self)
        logger.warning("task %s lost its process before it had a permit, delivered again", self.id)
        self.reject(requeue=True)  # type: ignore[attr-defined]
        self._ended(reported=False)

    # -- losing the permit

    def permit_lost(self, reason: str) -> None:
        """The lease ended while the task runs."""
        if not self.task.semaphore_options.terminates(self._limiter.settings):
            return
        self._loss = reason
        self._limiter.kill(self.worker_pid)

    def _lost_permit(self) -> Any:
        try:
            msg = f"task {self.id}: {self._loss}"
            raise PermitLost(msg)  # noqa: TRY301 - Celery wants its traceback
        except PermitLost:
            return ExceptionInfo()


class LimitedRequest(LimitedRequestMixin, Request):  # type: ignore[misc]
    """The ``Request`` class of a limited task."""


def _bare(exc: Any) -> Any:
    return exc.exc if isinstance(exc, ExceptionWithTraceback) else exc
