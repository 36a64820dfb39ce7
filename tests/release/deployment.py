"""The workers of a shop, of one release or another, which are replaced while tasks come."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from celery import Celery
from kombu import pools

from tests.support.counter import CounterServer
from tests.support.process import ROOT, Process

from .environment import Environment

LIMIT = 3
STOPS_S = 60  # a pool process of Celery may wait half a minute for its main process, with plain tasks as well
TASKS = ("requeued", "parked")
SHOP = """
import os
from celery import Celery
from celery_semaphore import LimitedTask
from counting import Counter

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.semaphore_lease = 5
app.conf.task_acks_late = True
app.conf.semaphore_on_saturated = os.environ.get("ON_SATURATED")
counter = Counter.from_env()


@app.task(
    name="requeued", base=LimitedTask, bind=True, semaphore="one", limit=3, on_saturated="requeue"
)
def requeued(self):
    with counter.inside("one", self.request.id):
        counter.remain("one", 0.05)


@app.task(name="parked", base=LimitedTask, bind=True, semaphore="one", limit=3, on_saturated="park")
def parked(self):
    with counter.inside("one", self.request.id):
        counter.remain("one", 0.05)


@app.task(name="waits", base=LimitedTask, bind=True, semaphore="two", limit=3)
def waits(self):  # as the release does that runs it, unless its environment says how
    with counter.inside("two", self.request.id):
        counter.remain("two", 0.02)


@app.task(name="unlimited", bind=True)
def unlimited(self):
    with counter.inside("unlimited", self.request.id):
        pass
"""


class Deployment:
    """The workers of a shop, which are replaced one after the other while tasks come."""

    def __init__(self, folder: Path, broker: str, counters: CounterServer) -> None:
        (folder / "shop.py").write_text(SHOP)
        # Of the tests' package they need this file alone: beside that package stands another copy of the library.
        (folder / "counting.py").symlink_to(ROOT / "tests" / "support" / "counter" / "client.py")
        self._folder = folder
        self._env = {"BROKER": broker, **counters.env}
        self.client = Celery("client", broker=broker, set_as_current=False)
        self.sent = 0
        self.workers: list[Process] = []
        self.ended: list[Process] = []

    def start(self, release: Environment, count: int = 1, **env: str) -> Process:
        for _ in range(count):
            name = f"worker-{len(self.workers) + len(self.ended)}"
            self.workers.append(release.worker(name, self._folder, self._env | env))
        return self.workers[-1]

    def replace_all_by(
        self, release: Environment, seconds: float, waits: Callable[[], int]
    ) -> None:
        """Replace each worker in turn, and keep some tasks waiting meanwhile."""
        for _ in range(len(self.workers)):
            self._load(seconds / len(self.workers), waits)
            old = self.stop()
            self.start(release)
            old.wait(STOPS_S)

    def change_all_to(self, release: Environment, **env: str) -> None:
        """Replace each worker in turn, while no other task comes."""
        for _ in range(len(self.workers)):
            old = self.stop()
            self.start(release, 1, **env)
            old.wait(STOPS_S)

    def stop(self) -> Process:
        """Let the oldest worker begin to end."""
        old = self.workers.pop(0)
        os.kill(old.pid, signal.SIGTERM)
        self.ended.append(old)
        return old

    def send(self, count: int = 10) -> None:
        """Send so many tasks of each kind that is limited."""
        for name in TASKS * count:
            self.client.send_task(name)
            self.sent += 1

    def _load(self, seconds: float, waits: Callable[[], int]) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if waits() < 40:
                self.send()
            time.sleep(0.05)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill_group()
        self.client.close()
        pools.reset()
