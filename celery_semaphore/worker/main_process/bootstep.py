"""Bootsteps: open the store when a worker starts, keep its permits, and close the store after the pool has ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from typing import Any

from celery import bootsteps
from celery.worker import WorkController
from kombu.asynchronous import Hub
from kombu.common import ignore_errors

from ...core.formats import NewerFormat
from ...core.names import ProcessName
from ...core.wait_policy import OnSaturated
from ...errors import StoreUnavailable
from ...task.celery_types import Consumer
from ...task.unlimited import refuse_unlimited
from ..celery_internals import shuts_down_cold, tags_by_queue
from ..keeping.kept_messages import KeptMessages
from ..keeping.prefetch import length_warnings, restore_in_loop
from ..keeping.redelivery import redelivery_of
from ..keeping.redis_redelivery import give_back_unread, give_up_unanswered
from ..limiter import Limiter, limiter_of
from ..messages.broker import is_amqp
from ..messages.granted_queue import granted_queue
from ..messages.parking_watch import ParkingWatch
from ..permits.note import NotePipe
from ..pool_process import tracer  # noqa: F401 - before the fork, or each process of the pool loads it by itself
from ..pool_process.postrun import watch_ends
from ..pool_process.result import UNTRACKED, can_track
from ..task_checks import check_tasks, policies_of, warnings_of
from .announcements import Announcements
from .declared_limits import DeclaredLimits
from .discarded import watch_discards
from .events import buffer_refusals
from .granted import GrantedQueues
from .inspection import add_inspect_command
from .line_asker import LineAsker, asks_for_places
from .processes import check_processes, forks
from .worker_metrics import metrics_of

logger = logging.getLogger(__name__)

SHUTDOWN_TIMEOUT_S = 5.0  # for releasing what the worker has when it ends
ANSWER_S = 5.0  # timeout of one answer of the broker at a warm shutdown
COLD_ANSWER_S = 1.0  # at a cold one: Celery has waited for several answers, and a supervisor kills a slow worker
NONE_COMES_S = 0.1  # for each answer after the first one that timed out
FAREWELL_S = 1.0  # for telling the store that the worker consumes no queue; else that lapses
COLD_FLUSH_S = 2.0  # for returning messages at a cold shutdown; the broker redelivers the rest


class SemaphoreStep(bootsteps.StartStopStep):  # type: ignore[misc] # Celery ships no types
    """Checks the limited tasks and their store, and starts the threads that renew and release."""

    requires = ("celery.worker.components:Pool",)

    def __init__(self, parent: WorkController, **kwargs: Any) -> None:
        super().__init__(parent, **kwargs)
        tasks, prefork = parent.app.tasks.values(), forks(parent)
        refuse_unlimited(tasks)  # before an error that follows from it
        self.limiter = limiter_of(parent.app)
        settings = self.limiter.settings
        check_processes(parent, settings)
        check_tasks(tasks, settings, prefork=prefork)
        policies = policies_of(tasks, settings)
        for warning in (*warnings_of(tasks), *length_warnings(parent.app)):
            logger.warning(warning)
        if settings.track_waiting and not can_track(parent.app.backend):
            logger.warning(UNTRACKED)
        self.limiter.worker.metrics = metrics_of(self.limiter, tasks)
        # Before the pool's processes, which inherit the name.
        ProcessName.worker = parent.hostname
        self.limiter.worker.declare = DeclaredLimits(tasks, parent.hostname).declare
        _check_store(self.limiter, parks=OnSaturated.PARK in policies)
        if policies & {OnSaturated.PARK, OnSaturated.WAIT}:
            watch = ParkingWatch(
                parent.app,
                settings,
                lambda: self.limiter.process.measured,
                brokers=self.limiter.brokers,
                connected=self.limiter.queues.is_connected,
            )
            purged = bool(getattr(parent, "purge", False))  # by `celery worker --purge`
            watch.begin(waits=OnSaturated.WAIT in policies, purged=purged)
            self.limiter.worker.parking = watch
        # The pipe must exist before the pool's processes, which inherit it.
        self.limiter.serve(NotePipe() if prefork else None)
        watch_ends()
        add_inspect_command()

    def start(self, parent: WorkController) -> None:
        """Start the threads, now that the pool is up."""
        self.limiter.worker.pool = parent.pool
        process = self.limiter.process
        process.announce.subscribe(Announcements(process.ledger, process.receivers))
        if (metrics := self.limiter.worker.metrics) is not None:
            metrics.start()
        self.limiter.start()
        self.limiter.sweeper.start()

    def register_with_event_loop(self, _parent: WorkController, hub: Hub) -> None:
        """Watch the waker's pipe; Celery calls this at each connection to the broker."""
        # The pipe of notes is left to the releaser's thread: each task writes three notes. Of these only a release that
        # handed something on is urgent, and its process wakes the loop.
        hub.add_reader(self.limiter.waker.fileno(), self.limiter.on_wake)

    def stop(self, parent: WorkController) -> None:
        """Leave a broker without a connection to it: then Celery does not stop the consumer's step.

        Tasks still run, so their permits are kept until that step's shutdown.
        """
        limiter = self.limiter
        if not limiter.queues.is_connected():
            _leave_queues(limiter)
        limiter.worker.lost.give_back_at_end(parent.app, _longest_answer())

    def terminate(self, parent: WorkController) -> None:
        """Do the same at a cold shutdown."""
        self.stop(parent)


class SemaphoreConsumerStep(bootsteps.StartStopStep):  # type: ignore[misc] # Celery ships no types
    """Follows the worker's connection to the broker, and closes the limiter after the pool has ended."""

    # Steps stop in reverse order: this one must limit the wait for answers before any step of Celery waits for one.
    requires = ("celery.worker.consumer:Tasks", "celery.worker.consumer.control:Control")
    granted: GrantedQueues | None = None
    kept: KeptMessages | None = None
    asker: LineAsker | None = None

    def __init__(self, c: Consumer, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        self.limiter = limiter = limiter_of(c.app)
        # Celery has no signal for a lost connection, and closes it before it stops the steps.
        close_lost = c.on_connection_error_after_connected
        c.on_connection_error_after_connected = partial(_close_lost, c, limiter, close_lost)
        if limiter.settings.granted_queues:
            self.granted = GrantedQueues(c, limiter)
        # Last, for the granted queue of a queue that is added must be consumed by then.
        c.add_task_queue = _then_say(limiter, c.add_task_queue)
        c.cancel_task_queue = _then_say(limiter, c.cancel_task_queue)
        restore_in_loop(c, partial(_call_in_loop, c, limiter))
        watch_discards(c, limiter)
        if asks_for_places(c, limiter):
            self.asker = LineAsker(c, limiter)

    def start(self, c: Consumer) -> None:
        """Keep messages and consume granted queues on the connection that was just made."""
        limiter, worker = self.limiter, self.limiter.worker
        worker.connections += 1
        worker.consumer = c.task_consumer
        buffer_refusals(c)
        if c.hub:
            worker.in_loop = partial(_call_in_loop, c, limiter)
        if limiter.settings.keep:  # else each is published, P1
            # A server that is broker and store may have forgotten permits when the connection is there again.
            epoch = self.kept.session.epoch if self.kept is not None else None
            self.kept = worker.kept = KeptMessages(
                c,
                redelivery_of(c, limiter.mover.put_back),
                worker.in_loop,
                limiter.process.measured,
                leave=limiter.process.releaser.release,
                found=limiter.reaped,
                epoch=epoch,
            )
            self.kept.start()
        if self.granted is not None:
            self.granted.connect()
        worker.lost.give_back(c)
        # Not before the loop, where it consumes: until then it would say that it left all its queues.
        _call_in_loop(c, limiter, partial(_connected, c, limiter))

    def register_with_event_loop(self, _c: Consumer, _hub: Hub) -> None:
        """Consume the granted queues; Celery calls this right before a loop with a hub begins."""
        if self.granted is not None:
            self.granted.consume()

    def stop(self, c: Consumer) -> None:
        """Let go of what the connection delivered: it is lost or about to be closed, and nothing can be acked after."""
        limiter = self.limiter
        ends = c.blueprint.state != bootsteps.RUN  # any shutdown, as opposed to a reconnect
        if ends:
            _leave_queues(limiter)
        else:
            limiter.queues.disconnected()
            limiter.mover.forget_watched()
        try:
            if self.granted is not None:
                with _bounded_answers(c) if ends else nullcontext():
                    self.granted.cancel()
            if ends:
                with _bounded_answers(c):
                    _cease_to_consume(c)
        finally:  # whatever kombu raises
            self._forget_waiting(ends=ends)
            if self.granted is not None:
                self.granted.leave(ends=ends)
            if ends:
                # A message that was published again must be acknowledged on this connection, or it is delivered twice.
                limiter.mover.flush(_longest_flush(limiter.settings.publish_timeout))
                limiter.mover.leave(limiter.worker.homes)  # while tasks still run here
            limiter.worker.connections += 1

    def _forget_waiting(self, *, ends: bool) -> None:
        if self.asker is not None:
            self.asker.forget()
        kept, self.limiter.worker.kept = self.kept, None
        if kept is not None and ends:
            kept.give_back_all()  # other workers may run them while tasks run here
        elif kept is not None:
            kept.forget()

    def shutdown(self, _c: Consumer) -> None:
        """Close the limiter after the pool has ended, in a warm or a cold shutdown."""
        if self.asker is not None:
            self.asker.close(SHUTDOWN_TIMEOUT_S)
        if self.kept is not None:
            self.kept.session.join(SHUTDOWN_TIMEOUT_S)
        self.limiter.queues.join(FAREWELL_S)
        self.limiter.close(SHUTDOWN_TIMEOUT_S, flush=_longest_flush(SHUTDOWN_TIMEOUT_S))


def _leave_queues(limiter: Limiter) -> None:
    """Let the sweeper's thread tell the store: one that is away must not delay the end."""
    limiter.queues.leave()
    limiter.sweeper.soon()


def _longest_answer() -> float:
    return COLD_ANSWER_S if shuts_down_cold() else ANSWER_S


def _longest_flush(warm: float) -> float:
    """Return the timeout for returning messages to the broker, given the timeout of a warm shutdown."""
    return min(COLD_FLUSH_S, warm) if shuts_down_cold() else warm


def _call_in_loop(c: Consumer, limiter: Limiter, call: Callable[[], object]) -> None:
    if c.hub:
        limiter.in_loop(call)
    else:
        c.call_soon(call)


def _connected(c: Consumer, limiter: Limiter) -> None:
    limiter.queues.connected(partial(_consumed, c, limiter))
    limiter.sweeper.soon()


def _consumed(c: Consumer, limiter: Limiter) -> set[str]:
    """Return the queues that the worker consumes at this moment, granted queues included. For any thread."""
    homes = set() if c.task_consumer is None else set(tags_by_queue(c.task_consumer))
    return homes | {granted_queue(name) for name in homes & limiter.worker.homes}


def _then_say(limiter: Limiter, change: Callable[..., None]) -> Callable[..., None]:
    """Return a function that changes which queues are consumed, and has the store told."""

    def change_and_say(*args: object, **options: object) -> None:
        change(*args, **options)
        limiter.sweeper.soon()

    return change_and_say


def _close_lost(
    c: Consumer, limiter: Limiter, close: Callable[[Exception], None], error: Exception
) -> None:
    """Close a connection that is lost, as Celery does."""
    limiter.queues.disconnected()  # before its consumer forgets its queues
    worker = limiter.worker
    worker.connections += 1  # so that nothing more of it is published: the broker delivers it again
    line = []
    if (kept := worker.kept) is not None:
        line = kept.line()
        kept.forget()  # its timer must not begin messages that the broker delivers again
    try:
        worker.lost.note(c, line)
        give_up_unanswered(c.connection)
    except Exception:
        # An error here would end the worker, although Celery is about to reconnect.
        logger.warning("a lost connection was not read to its end", exc_info=True)
    close(error)


@contextmanager
def _bounded_answers(c: Consumer) -> Iterator[None]:
    """Limit the time that a shutdown waits for answers of RabbitMQ.

    Celery's handler of QUIT may interrupt a half-written frame of the warm shutdown. Then no answer comes any more.
    Celery would wait for several, so after the first timeout the others get almost no time.
    """
    connection = c.connection
    if connection is None or not connection.connected or not is_amqp(c.app):
        yield
        return
    socket, since = connection.connection.transport.sock, time.monotonic()
    longest = _longest_answer()
    if socket.gettimeout() != NONE_COMES_S:  # else an earlier one timed out
        socket.settimeout(longest)
    try:
        yield
    finally:
        if time.monotonic() - since >= longest:
            socket.settimeout(NONE_COMES_S)


def _cease_to_consume(c: Consumer) -> None:
    """Cancel the worker's own consumers, as Celery is about to, and leave no message unread."""
    if c.connection is not None:
        ignore_errors(c, c.task_consumer.cancel)
        give_back_unread(c.connection)


def _check_store(limiter: Limiter, *, parks: bool) -> None:
    try:
        store = limiter.process.measured
        for warning in store.check(parks=parks):
            logger.warning(warning)
        logger.info("permits are kept in %s", store.durability(0).place)
        # Learn the store's epoch before any task runs. If the store then loses its data, a worker that knows no epoch
        # could not tell that other workers hold permits.
        with suppress(NewerFormat):  # the check has warned of it
            store.reap()
    except StoreUnavailable as error:
        # Start anyway: tasks without a limit can run, and the store may come back.
        logger.critical(
            "limited tasks wait until the store of semaphores can be reached: %s", error
        )
