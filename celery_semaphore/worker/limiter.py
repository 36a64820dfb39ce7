"""Limiter: the parts that an app needs to limit its tasks, one set for each process."""

from __future__ import annotations

import os
import signal
import threading
from collections import deque
from collections.abc import Callable
from functools import cached_property

from celery import Celery

from ..core.announcer import Announcer
from ..core.breaker import CircuitBreaker
from ..core.events import Event
from ..core.lease import LeaseKeeper
from ..core.names import ProcessName
from ..core.releaser import Releaser
from ..core.store import HandedOn, Outgoing, Store
from ..metrics.measured_store import is_on, measured
from ..settings import Settings
from .messages.broker import is_amqp
from .messages.brokers import Brokers
from .messages.consumed_queues import ConsumedQueues
from .messages.granted_queue import granted_queue, home_queue
from .messages.message_mover import MessageMover
from .messages.sweeper import Sweeper
from .permits.ledger import Ledger
from .permits.loop_waker import LoopWaker
from .permits.note import NotePipe
from .permits.permit_observer import PermitObserver
from .permits.process import is_gone
from .permits.receivers import ReceiverThread
from .process_state import ProcessState
from .worker_state import WorkerState, declare_nothing

LIMITER = "_semaphore_limiter"  # the attribute of an app that holds its limiter
TERMINATION_GRACE_S = 5.0  # from SIGTERM to SIGKILL


class Limiter:
    """Limits the tasks of one app. ``notes`` is set in a worker that runs tasks in other processes.

    A ``store`` replaces the one of the app's settings, for tests.
    """

    def __init__(self, app: Celery, store: Store | None = None) -> None:
        self.settings = Settings.from_app(app, url=None if store is None else "memory://")
        self._given = store
        self.waker = LoopWaker()
        self._calls = deque[Callable[[], object]]()  # for the event loop
        self._app = app
        self._carry()
        self.worker = WorkerState()
        self.notes: NotePipe | None = None
        self._process: ProcessState | None = None
        self._main = 0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    @cached_property
    def loses_fanouts(self) -> bool:
        """Whether the broker keeps no queue for messages that a worker gets from a fanout exchange."""
        return not is_amqp(self._app)

    @cached_property
    def low_is_urgent(self) -> bool:
        """Whether the broker counts priorities downwards."""
        return not is_amqp(self._app)

    @cached_property
    def default_priority(self) -> int:
        """The priority of a message that is sent without one."""
        return int(self._app.conf.task_default_priority or 0)

    @cached_property
    def redelivered_after(self) -> float:
        """Seconds until the broker redelivers the messages of a killed worker; 0 for at once."""
        return 0.0 if is_amqp(self._app) else self.settings.visibility_timeout

    @property
    def process(self) -> ProcessState:
        """The process's own store, breaker, ledger and threads."""
        process = self._process
        return self._made() if process is None else process

    def serve(self, notes: NotePipe | None) -> None:
        """Make this process a worker's main process, to which pool processes write their notes."""
        self.notes = notes
        self._main = os.getpid()

    @property
    def serves(self) -> bool:
        """Whether this process belongs to a worker that renews and releases permits."""
        return self.notes is not None or self._main == os.getpid()

    def observer(self) -> PermitObserver:
        """Return the recorder of deliveries: the pipe to the main process, or this process's ledger."""
        return self.process.ledger if self.notes is None else self.notes

    def start(self) -> None:
        """Start renewing, releasing and announcing in this process."""
        self.process.keeper.start()
        self.process.releaser.start()
        self.process.receivers.start()

    def comes_back_to(self, queue: str) -> str:
        """Return the queue by which a message of this queue comes back with a permit."""
        return granted_queue(queue) if queue in self.worker.homes else queue

    def home_of(self, queue: str) -> str:
        """Return the queue that a granted queue belongs to; for any other queue, return that queue."""
        return home_queue(queue, self.worker.homes)

    def drain(self) -> bool:
        """Read the notes of the pool's processes, and return whether there was one."""
        if self.notes is None or os.getpid() != self._main:
            return False
        return self.notes.drain(self.process.ledger)

    def in_loop(self, call: Callable[[], object]) -> None:
        """Call this in the event loop, soon. Any thread may ask for it.

        A signal handler may, too: Celery's ``call_soon`` would take a lock that the interrupted thread may hold.
        """
        self._calls.append(call)
        self.waker.wake()

    def on_wake(self) -> None:
        """Read the notes and make the calls that wait for the event loop, now that it runs."""
        self.waker.clear()
        self.drain()
        for _ in range(len(self._calls)):
            self._calls.popleft()()

    def kill(self, pid: int, runs: Callable[[], bool]) -> None:
        """End a process of the pool while it ``runs`` a task that has lost its permit."""
        if not runs():
            return
        self.worker.pool.terminate_job(pid, signal.SIGTERM)
        # Code that holds the GIL does not react to SIGTERM. A task that caught it may have ended by then.
        later = threading.Timer(TERMINATION_GRACE_S, _kill, [pid, runs])
        later.daemon = True
        later.start()

    def close(self, timeout: float, *, flush: float) -> None:
        """Release the worker's permits at its end, and send the messages that this hands on.

        Flushing and ending the messages' thread take ``flush`` seconds each at most. Another worker may begin in this
        process, as in tests: it gets threads of its own.
        """
        process, mover = self.process, self.mover
        self.sweeper.stop()
        process.ledger.close(timeout)
        process.receivers.close(timeout)  # last, as the calls before announce events
        mover.flush(flush)
        mover.close(flush)
        if (metrics := self.worker.metrics) is not None:
            self.worker.metrics = None
            metrics.close()  # last, as it counts the end, too
        process.store.close()
        self.worker.declare, ProcessName.worker = declare_nothing, ""
        self._calls.clear()  # another worker's loop must not make them
        self._process = None
        self._carry()

    def _carry(self) -> None:
        self.brokers = Brokers(self._app, self.settings, self._store)
        self.queues = ConsumedQueues(self._store, lambda: self.brokers.own)
        self.mover = MessageMover(
            self._app,
            self.settings,
            self._store,
            done=self.waker.wake,
            queues=self.queues,
            handed_on=self.handed_on,
            brokers=self.brokers,
            announce=self._announce,
        )
        self.sweeper = Sweeper(
            self._store,
            self.mover.bring_back,
            sessions=self._sessions,
            also=self._watch,
            say=self._say_queues,
        )

    def _store(self) -> Store:
        return self.process.measured

    def _watch(self) -> None:
        if (watch := self.worker.parking) is not None:
            watch.sweep()
        self.worker.saturation.tell(self._store())  # it raises where the store is away

    def _say_queues(self) -> None:
        """Say which queues the worker consumes, and empty granted queues that neither it nor another one does."""
        self.queues.say()
        if self.queues.is_connected():
            self.mover.sweep()

    def _announce(self, event: Event) -> None:
        self.process.announce(event)

    def _sessions(self) -> int:
        kept = self.worker.kept  # the event loop may set it to None
        return 1 if kept is None else kept.session.sessions

    def handed_on(self, handed: HandedOn) -> None:
        """Send the messages that a call handed on, and begin the waits that it granted, in a worker's main process.

        Elsewhere a worker's sweep finds the messages, and a question the grants.
        """
        if os.getpid() != self._main:
            return
        if handed.outgoing:
            self.mover.bring_back(handed.outgoing)
        if handed.granted and (kept := self.worker.kept) is not None:
            kept.begin_granted(handed.granted)

    def reaped(self, outgoing: Outgoing) -> None:
        """Send the messages that a call of ``reap`` handed on."""
        self.handed_on(HandedOn(outgoing))

    def _drain_beside_the_loop(self) -> None:
        if self.drain():
            self.waker.wake()

    def _made(self) -> ProcessState:
        with self._lock:
            if self._process is None:
                self._process = self._new()
            return self._process

    def _new(self) -> ProcessState:
        store = self._given or self.settings.open_store()
        announce = Announcer()
        own = measured(store, announce) if is_on(self.settings) else store
        keeper = LeaseKeeper(own, announce, lambda: self.worker.declare(own))  # the sweeper reaps
        releaser = Releaser(own, self._drain_beside_the_loop, self.handed_on)
        ledger = Ledger(keeper, releaser, announce, self.handed_on)
        receivers = ReceiverThread(releaser.soon)
        breaker = CircuitBreaker()
        return ProcessState(
            os.getpid(), store, own, breaker, announce, ledger, keeper, releaser, receivers
        )

    def _forked(self) -> None:
        # Make everything new: a lock that another thread held at the fork would stay locked for ever, and the sockets
        # belong to the parent. Only the store's epoch is taken over, and the durations in force with it.
        parent, self._process = self._process, None
        self._lock = threading.Lock()
        if parent is not None:
            self._process = self._new()
            self._process.store.epoch = parent.store.epoch
            self._process.store.in_force = parent.store.in_force


def _kill(pid: int, runs: Callable[[], bool]) -> None:
    if runs() and not is_gone(pid):
        os.kill(pid, signal.SIGKILL)


def limiter_of(app: Celery) -> Limiter:
    """Return the app's limiter, made when it is first needed; raise ``ConfigurationError``."""
    limiter: Limiter | None = app.__dict__.get(LIMITER)
    return limiter or app.__dict__.setdefault(LIMITER, Limiter(app))
