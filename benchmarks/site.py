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
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import psutil
from celery import Celery

from celery_semaphore.stores import store_from_url
from tests.support.lines import whole_lines
from tests.support.postgres import EmbeddedPostgresServer
from tests.support.process import ROOT, Process, wait_until
from tests.support.servers import ValkeyServer

from .app import LIMIT

CLOCKS = Path(__file__).parent / "clocks"
QUEUE = "celery"
STAGED = "staged"  # the list that holds tasks before workers may see them


STORE = "BENCH_STORE"  # the environment variable that names the store of permits
WITHOUT = "BENCH_WITHOUT"  # likewise, of packages that workers must not find
STORES = ("valkey", "postgresql")


class Site:
    """Holds a Valkey for messages, a store for permits, and a directory for the files that tasks write."""

    def __init__(self, server: ValkeyServer, store_url: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="bench-"))
        self.server = server
        self.client = server.client()
        self.sender = Celery("sender", broker=server.url)
        self.store = store_from_url(store_url)
        self._store_url = store_url
        self.workers: list[Process] = []
        self._counts: dict[str, int] = {}

    def start(
        self, processes: int, count: int = 1, *, limit: int = LIMIT, clock: float = 0.0, **conf: Any
    ) -> None:
        """Start more workers, with clocks that are so many seconds ahead; return when they are ready."""
        path = [str(CLOCKS), str(ROOT), os.environ.get("PYTHONPATH")]
        env = {
            "PYTHONPATH": os.pathsep.join(filter(None, path)),
            "BENCH_DIRECTORY": str(self.directory),
            "BENCH_BROKER": self.server.url,
            "BENCH_CLOCK": str(clock),
            "BENCH_LIMIT": str(limit),
            "BENCH_CONF": json.dumps({"semaphore_url": self._store_url, **conf}),
        }
        command = [sys.executable, "-m", "celery", "-A", "benchmarks.app", "worker"]
        command += ["--concurrency", str(processes), "--loglevel", "WARNING"]
        command += ["--without-mingle", "--without-gossip", "--hostname"]
        for n in range(count):
            worker = Process(f"bench-{n}", [*command, f"{n}-{time.time()}@bench"], env=env)
            self.workers.append(worker.start())
        for worker in self.workers:
            ready = self.directory / f"ready.{worker.pid}"
            worker.wait_until(ready.exists, 40, "ready")

    def stage(self, tasks: Iterable[tuple[str, list[Any]]]) -> int:
        """Send tasks to where no worker sees them; return how many."""
        count = 0
        with self.sender.producer_pool.acquire() as producer:
            for name, args in tasks:
                self.sender.send_task(
                    name, args, producer=producer, routing_key=QUEUE, queue=STAGED
                )
                count += 1
        # A worker puts a message back where it came from, so it must name the workers' queue.
        raw = [
            each.replace(b'"routing_key": "staged"', b'"routing_key": "celery"')
            for each in cast("list[bytes]", self.client.lrange(STAGED, 0, -1))
        ]
        self.client.delete(STAGED)
        for n in range(0, len(raw), 500):
            self.client.rpush(STAGED, *raw[n : n + 500])
        return count

    def release(self) -> float:
        """Give the workers all that was staged, at one instant."""
        self.client.rename(STAGED, QUEUE)
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

    def lines(self, kind: str) -> Iterator[list[float]]:
        for file in self.directory.glob("lines.*"):
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
        self.store.close()
        self.sender.close()
        for fd in self._counts.values():
            os.close(fd)
        shutil.rmtree(self.directory, ignore_errors=True)


@contextlib.contextmanager
def site() -> Iterator[Site]:
    """Keep permits with the messages, or on an embedded PostgreSQL if the variable says so."""
    with ValkeyServer() as server, contextlib.ExitStack() as stack:
        store_url = server.url
        if os.environ.get(STORE) == "postgresql":
            postgres = stack.enter_context(EmbeddedPostgresServer())
            postgres.install()
            store_url = postgres.url
        made = Site(server, store_url)
        stack.callback(made.stop)
        yield made
