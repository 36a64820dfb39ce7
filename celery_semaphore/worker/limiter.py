"""Limiter: what an app needs to limit its tasks, one set for each process."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..core.breaker import CircuitBreaker
from ..core.events import Announcer, Event, PermitReleased
from ..core.lease import LeaseKeeper
from ..core.store import Outgoing, Store
from ..settings import Settings
from .holding.held_messages import HeldMessages
from .messages.message_mover import MessageMover
from .messages.route import granted_queue, home_queue, is_amqp
from .messages.sweeper import Sweeper
from .permits.ledger import Ledger
from .permits.loop_waker import LoopWaker
from .permits.note import NotePipe, PermitObserver
from .permits.process import is_gone
from .permits.receivers import ReceiverThread
from .permits.releaser import Releaser

LIMITER = "_semaphore_limiter"  # where an app keeps it
TERMINATION_GRACE_S = 5.0  # seconds a process has to end by itself


@dataclass(frozen=True, slots=True)
class ProcessState:
    """What belongs to one process: connections, locks and threads are never shared across a fork."""

    pid: int
    store: Store
    breaker: CircuitBreaker
    announce: Announcer
    ledger: Ledger
    keeper: LeaseKeeper
    releaser: Releaser
    receivers: ReceiverThread


class Limiter:
    """The semaphores of one app. ``notes`` is set in a worker whose tasks run in other processes.

    With ``store`` permits are kept there, whatever the app's settings say: for tests.
    """

    def __init__(self, app: Any, store: Store | None = None) -> None:
        self.settings = Settings.from_app(app, url=None if store is None else "memory://")
        self._given = store
        self.waker = LoopWaker()
        self._app = app
        self._carry()
        self.parks = False  # whether any task of this worker does
        self.pool: Any = None  # of the worker, once it is up
        self.notes: NotePipe | None = None
        self.granted: frozenset[str] = frozenset()  # queues beside which it consumes a granted one
        self.consumer: Any = None  # of the task messages, on the connection of now
        self.in_loop: Callable[[Callable[[], object]], object] = _call
        self.held: HeldMessages | None = None  # by the connection of now
        self.connections = 0  # how often the worker lost or made its connection to the broker
        self._process: ProcessState | None = None
        self._main = 0
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    @cached_property
    def loses_fanouts(self) -> bool:
        """Whether the broker has no queue for what a worker gets from a fanout exchange."""
        return not is_amqp(self._app)

    @cached_property
    def low_is_urgent(self) -> bool:
        """Whether the broker counts priorities downwards."""
        return not is_amqp(self._app)

    @cached_property
    def redelivered_after(self) -> float:
        """Seconds until the broker delivers again what a worker held that was killed."""
        return 0.0 if is_amqp(self._app) else self.settings.visibility_timeout

    @property
    def process(self) -> ProcessState:
        """The process's own store, breaker, ledger and threads."""
        process = self._process
        return self._made() if process is None else process

    def serve(self, notes: NotePipe | None) -> None:
        """Be a worker's main process: pool processes write their notes to it."""
        self.notes = notes
        self._main = os.getpid()

    @property
    def serves(self) -> bool:
        """Whether this process belongs to a worker that keeps books of permits."""
        return self.notes is not None or self._main == os.getpid()

    def observer(self) -> PermitObserver:
        """Where a delivery is noted: by the pipe to the main process, or in this process's ledger."""
        return self.process.ledger if self.notes is None else self.notes

    def start(self) -> None:
        """Start renewing, releasing and announcing in this process."""
        self.process.keeper.start()
        self.process.releaser.start()
        self.process.receivers.start()

    def comes_back_to(self, queue: str) -> str:
        """Where a message of this queue shall come when it has a permit."""
        return granted_queue(queue) if queue in self.granted else queue

    def home_of(self, queue: str) -> str:
        """The queue that this one belongs to, if it is one of the granted; else itself."""
        return home_queue(queue, self.granted)

    def drain(self) -> bool:
        """Read what the pool's processes noted; whether there was anything."""
        if self.notes is None or os.getpid() != self._main:
            return False
        return self.notes.drain(self.process.ledger)

    def on_wake(self) -> None:
        """The event loop was woken: a permit was noted, or there is something to acknowledge."""
        self.waker.clear()
        self.drain()

    def kill(self, pid: int, runs: Callable[[], bool]) -> None:
        """End a process of the pool while it ``runs`` a task that has lost its permit."""
        if not runs():
            return
        self.pool.terminate_job(pid, signal.SIGTERM)
        # Code that holds the GIL does not see a SIGTERM; a task that caught it may be over by then.
        later = threading.Timer(TERMINATION_GRACE_S, _kill, [pid, runs])
        later.daemon = True
        later.start()

    def close(self, timeout: float, *, flush: float) -> None:
        """The worker ends: give back what it holds; send what that hands on, and end what is being sent, each in ``flush`` seconds.

        Another worker may begin in this process, as tests do it: it gets threads of its own.
        """
        process, mover = self.process, self.mover
        self.sweeper.stop()
        process.ledger.close(timeout)
        process.receivers.close(timeout)  # after all that is announced
        mover.flush(flush)
        mover.close(flush)
        process.store.close()
        self._process = None
        self._carry()

    def _carry(self) -> None:
        self.mover = MessageMover(self._app, self.settings, self._store, done=self.waker.wake)
        self.sweeper = Sweeper(self._store, self.mover.bring_back, self._sessions)

    def _store(self) -> Store:
        return self.process.store

    def _sessions(self) -> int:
        return 1 if self.held is None else self.held.session.sessions

    def handed_on(self, outgoing: Outgoing) -> None:
        """Send what a release or a look handed on, in a worker's main process."""
        if outgoing and os.getpid() == self._main:  # else a worker's sweep finds it
            self.mover.bring_back(outgoing)

    def _happened(self, event: Event) -> None:
        """Ask for the grant that the end of a permit may have made."""
        if isinstance(event, PermitReleased) and (held := self.held) is not None:
            held.session.freed(event.permit.claims)

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
        announce.subscribe(self._happened)
        keeper = LeaseKeeper(store, announce, self.handed_on)
        releaser = Releaser(store, self._drain_beside_the_loop, self.handed_on)
        ledger = Ledger(keeper, releaser, announce, self.handed_on)
        receivers = ReceiverThread(releaser.soon)
        breaker = CircuitBreaker()
        return ProcessState(
            os.getpid(), store, breaker, announce, ledger, keeper, releaser, receivers
        )

    def _forked(self) -> None:
        # A lock that another thread held at the fork stays locked here for ever, and the parent's
        # sockets are the parent's: begin anew, knowing what the parent knew of the store's epoch.
        epoch = self._process.store.epoch if self._process is not None else None
        self._lock = threading.Lock()
        self._process = None
        if epoch is not None:
            self._process = self._new()
            self._process.store.epoch = epoch


def _call(now: Callable[[], object]) -> object:
    """Stand in for an event loop, in a worker without one."""
    return now()


def _kill(pid: int, runs: Callable[[], bool]) -> None:
    if runs() and not is_gone(pid):
        os.kill(pid, signal.SIGKILL)


def limiter_of(app: Any) -> Limiter:
    """The app's limiter, made when it is first needed; raises ``ConfigurationError``."""
    try:
        limiter: Limiter = app.__dict__[LIMITER]
    except KeyError:
        limiter = app.__dict__.setdefault(LIMITER, Limiter(app))
    return limiter
