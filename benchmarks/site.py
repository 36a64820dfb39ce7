"""Start a broker and workers, and read what they have counted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
from celery import Celery

from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from tests.support.lines import whole_lines
from tests.support.process import ROOT, Process, wait_until
from tests.support.servers import ValkeyServer

from . import deployment
from .app import LIMIT
from .deployment import QUEUE, Broker, Tasks
from .ways import BEFORE

CLOCKS = Path(__file__).parent / "clocks"
HOLDERS = "holders"  # a queue whose worker holds permits until they are let go

WITHOUT = "BENCH_WITHOUT"  # the environment variable that names packages that workers must not find


class Site:
    """Holds a broker, a store for permits, and a directory for the files that tasks write.

    There is a Valkey beside another broker, too: for tasks that are limited by hand.
    """

    def __init__(
        self, server: ValkeyServer, broker: Broker, store_url: str, pool: str, release: Path
    ) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bench-"))
        # Python looks into the directory of `-m` first, so workers find this release and no other.
        self._release = self.directory / "release"
        self._release.mkdir()
        (self._release / "celery_semaphore").symlink_to(release / "celery_semaphore")
        self.server = server
        self.client = server.client()
        self.sender = Celery("sender", broker=broker.url)
        self.workers: list[Process] = []
        self._broker, self._store_url, self._pool = broker, store_url, pool
        self._counts: dict[str, int] = {}

    @cached_property
    def store(self) -> Store:
        """Open the store by this release's code: not for a site of the release before."""
        return store_from_url(self._store_url)

    def start(
        self,
        processes: int,
        count: int = 1,
        *,
        limit: int = LIMIT,
        clock: float = 0.0,
        pool: str | None = None,
        queue: str = QUEUE,
        **conf: Any,
    ) -> list[Process]:
        """Start more workers, with clocks that are so many seconds ahead; return them when they are ready."""
        env = self._env(limit=limit, clock=clock, **conf)
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.app", "worker"]
        command += ["--concurrency", str(processes), "--pool", pool or self._pool]
        command += ["--queues", queue, "--loglevel", "WARNING"]
        command += ["--without-mingle", "--without-gossip", "--hostname"]
        started = []
        for n in range(count):
            name = f"{n}-{time.time()}@bench"
            worker = Process(f"bench-{n}", [*command, name], env=env, cwd=self._release)
            self.workers.append(worker.start())
            started.append(worker)
        for worker in started:
            ready = self.directory / f"ready.{worker.pid}"
            worker.wait_until(ready.exists, 60, "ready")
        return started

    def _env(self, *, limit: int = LIMIT, clock: float = 0.0, **conf: Any) -> dict[str, str]:
        path = [str(CLOCKS), str(ROOT), os.environ.get("PYTHONPATH")]
        return {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "BENCH_DIRECTORY": str(self.directory),
            "BENCH_BROKER": self._broker.url,
            "BENCH_VALKEY": self.server.url,
            "BENCH_CLOCK": str(clock),
            "BENCH_LIMIT": str(limit),
            "BENCH_CONF": json.dumps({"semaphore_url": self._store_url, **conf}),
        }

    def command(self, *arguments: str) -> None:
        """Run `celery semaphore` of the workers' release."""
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.app", "semaphore", *arguments]
        with Process("semaphore", command, env=self._env(), cwd=self._release) as called:
            code = called.wait(60)
            assert not code, f"celery semaphore {' '.join(arguments)}: {code}\n{called.log_tail()}"

    def hold(self, permits: int) -> None:
        """Hold all permits by a worker with a queue of its own, until `let_go()`."""
        self.start(permits, limit=permits, pool="threads", queue=HOLDERS)
        for _ in range(permits):
            self.sender.send_task("hold", queue=HOLDERS)
        self.wait(lambda: self.count("holding") == permits, 30, "the holders", interval=0.05)

    def let_go(self) -> float:
        """Let the holders end; return the time of day."""
        (self.directory / "go").touch()
        return time.time()

    def stage(self, tasks: Tasks) -> int:
        """Keep tasks where no worker sees them; return how many."""
        return self._broker.stage(self.sender, tasks)

    def release(self) -> float:
        """Give the workers all that was staged, at one instant if the broker can."""
        self._broker.release()
        return time.monotonic()

    def release_at(self) -> float:
        """Do the same; return the time of day, to be compared with the tasks' times."""
        self.release()
        return time.time()

    def count(self, name: str) -> int:
        """Add up what the processes have counted; the files stay open, so that this is cheap."""
        for file in self.directory.glob(f"{name}.*"):
            if file.name not in self._counts:
                self._counts[file.name] = os.open(file, os.O_RDONLY)
        fds = [fd for each, fd in self._counts.items() if each.startswith(f"{name}.")]
        return sum(struct.unpack("<Q", os.pread(fd, 8, 0) or bytes(8))[0] for fd in fds)

    def lines(self, kind: str, of: str = "*") -> Iterator[list[float]]:
        """Yield the numbers of the lines of a kind, of all processes or one."""
        for file in self.directory.glob(f"lines.{of}"):
            for line in whole_lines(file):
                first, *numbers = line.split()
                if first == kind:
                    yield [float(number) for number in numbers]

    def forget_lines(self) -> None:
        for file in self.directory.glob("lines.*"):
            file.write_text("")

    def wait(
        self, condition: Callable[[], bool], timeout: float, what: str, *, interval: float = 0.005
    ) -> None:
        wait_until(condition, timeout, what, interval=interval, log=self.workers[0].log_tail)

    def waiting(self) -> int:
        return self.store.snapshot("work").waiting

    def cpu(self) -> float:
        """Return the seconds of processor time that the workers have used."""
        total = 0.0
        for worker in self.workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                main = psutil.Process(worker.pid)
                times = [each.cpu_times() for each in (main, *main.children(recursive=True))]
                total += sum(each.user + each.system for each in times)
        return total

    def server_cpu(self) -> float:
        times = psutil.Process(self.server.pid).cpu_times()
        return times.user + times.system

    def stop(self) -> None:
        for worker in self.workers:
            worker.kill_group()  # the rest of a measured backlog is not waited for
            worker.discard()
        self.client.close()
        if "store" in self.__dict__:
            self.store.close()
        self.sender.close()
        for fd in self._counts.values():
            os.close(fd)
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def site(*, before: bool = False) -> Iterator[Site]:
    """Start the servers of the chosen deployment, for workers of this release or of the one before."""
    release = Path(os.environ[BEFORE]) if before else ROOT
    on = deployment.chosen()
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(ValkeyServer())
        broker = stack.enter_context(deployment.broker(on, server))
        store_url = stack.enter_context(deployment.store_url(on, server))
        made = Site(server, broker, store_url, on.pool, release)
        stack.callback(made.stop)
        if on.postgresql:
            made.command("install")
        yield made
