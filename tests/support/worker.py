"""Real Celery workers."""

import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

import psutil
from celery import Celery

from .forked import OURS, PYTHON, ForkedProcess


class CeleryWorker(ForkedProcess):
    """`celery -A app worker`, in a process of its own.

    Broker, result backend and store come through the environment (`env`).
    """

    def __init__(
        self,
        app: str,
        *,
        name: str = "worker",
        pool: str = "prefork",
        concurrency: int = 2,
        queues: Sequence[str] = (),
        options: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.hostname = f"{name}-{os.urandom(3).hex()}@localhost"
        command = [sys.executable, "-m", "celery", "-A", app, "worker"]
        command += ["--pool", pool, "--concurrency", str(concurrency)]
        command += ["--hostname", self.hostname, "--loglevel", "INFO"]
        # Neighbours are of no interest to a test, and looking for them takes a second.
        command += ["--without-mingle", "--without-gossip"]
        command += ["--queues", ",".join(queues)] if queues else []
        command += options
        super().__init__(name, command, env=PYTHON | {"PYTHONPATH": OURS} | dict(env or {}))
        self.patches = pool in {"gevent", "eventlet"}
        self._seen = 0  # how often it was ready before

    def start(self) -> "CeleryWorker":
        self.launch()
        return self.wait_ready()

    def launch(self) -> None:
        """Start it, and do not wait until it is ready."""
        self._seen = self.log().count(" ready.")
        super().start()

    def wait_ready(self) -> "CeleryWorker":
        self.wait_until(lambda: self.log().count(" ready.") > self._seen, 40, "ready")
        return self

    def wait_until_running(self, client: Celery, count: int) -> None:
        """Wait until the main process has read of its pool that so many tasks run: only these a cold shutdown ends."""
        active = client.control.inspect([self.hostname], timeout=2).active
        self.wait_until(
            lambda: [len(tasks) for tasks in (active() or {}).values()] == [count],
            20,
            f"the main process knows of {count} running tasks",
        )

    def children(self) -> list[int]:
        """The pool's processes, oldest first."""
        born: dict[int, float] = {}
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.pid).children():
                with contextlib.suppress(psutil.NoSuchProcess):  # it may end between two looks
                    if child.status() != psutil.STATUS_ZOMBIE:
                        born[child.pid] = child.create_time()
        return sorted(born, key=born.__getitem__)

    def kill_child(self, pid: int | None = None) -> int:
        """Kill one of the pool's processes with SIGKILL; returns its id."""
        victim = self.children()[0] if pid is None else pid
        os.kill(victim, signal.SIGKILL)
        return victim

    def warm(self) -> None:
        """Ask for a warm shutdown: take no more, finish what runs."""
        self.signal(signal.SIGTERM)

    def cold(self) -> None:
        """Ask for a cold shutdown: end what runs."""
        self.signal(signal.SIGQUIT)
