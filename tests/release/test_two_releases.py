"""Two releases side by side on one store: workers of one are replaced by workers of the other, under load, and back.

``RELEASE_BEFORE`` names the tag or the commit of the older one, which must have the same format; without it the
older one is this commit, which shows that two installations share a store. ``RELEASE_SECONDS`` is how long each way
takes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from celery import Celery
from kombu import pools

from tests.support.counter import Counter, CounterServer
from tests.support.process import ROOT, Process, wait_until
from tests.support.servers import ValkeyServer

from .environment import Environment, build, source_of

pytestmark = pytest.mark.timeout(3000)
LIMIT, WORKERS = 3, 2
STOPS_S = 60  # a pool process of Celery may wait half a minute for its main process, with plain tasks as well
SECONDS = float(os.environ.get("RELEASE_SECONDS", "300"))
BEFORE = os.environ.get("RELEASE_BEFORE")
TASKS = ("requeued", "parked")
SHOP = """
import os
from celery import Celery
from celery_semaphore import LimitedTask
from counting import Counter

app = Celery("shop", broker=os.environ["BROKER"])
app.conf.semaphore_lease = 5
app.conf.task_acks_late = True
counter = Counter.from_env()


@app.task(name="requeued", base=LimitedTask, bind=True, semaphore="one", limit=3)
def requeued(self):
    with counter.inside("one", self.request.id):
        counter.remain("one", 0.05)


@app.task(name="parked", base=LimitedTask, bind=True, semaphore="one", limit=3, on_saturated="park")
def parked(self):
    with counter.inside("one", self.request.id):
        counter.remain("one", 0.05)
"""


@pytest.fixture(scope="module")
def before(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Return the environment of the older release."""
    if BEFORE:
        source = source_of(BEFORE, tmp_path_factory.mktemp("source") / "checkout")
        wheel = build(source, tmp_path_factory.mktemp("dist"))
    return Environment(tmp_path_factory.mktemp("before"), wheel, "redis")


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

    def start(self, release: Environment, count: int = 1) -> None:
        for _ in range(count):
            name = f"worker-{len(self.workers) + len(self.ended)}"
            self.workers.append(release.worker(name, self._folder, self._env))

    def replace_all_by(
        self, release: Environment, seconds: float, waits: Callable[[], int]
    ) -> None:
        """Replace each worker in turn, and keep some tasks waiting meanwhile."""
        for _ in range(len(self.workers)):
            self._load(seconds / len(self.workers), waits)
            old = self.workers.pop(0)
            os.kill(old.pid, signal.SIGTERM)
            self.ended.append(old)
            self.start(release)
            old.wait(STOPS_S)

    def _load(self, seconds: float, waits: Callable[[], int]) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for name in TASKS * 10 if waits() < 40 else ():
                self.client.send_task(name)
                self.sent += 1
            time.sleep(0.05)

    def close(self) -> None:
        for worker in self.workers:
            worker.kill_group()
        self.client.close()
        pools.reset()


@pytest.fixture
def deployment(
    tmp_path: Path, valkey: ValkeyServer, counter_server: CounterServer
) -> Iterator[Deployment]:
    deployment = Deployment(tmp_path, valkey.url, counter_server)
    try:
        yield deployment
    finally:
        deployment.close()


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(6.0, marks=pytest.mark.release),
        pytest.param(SECONDS, marks=pytest.mark.soak),
    ],
)
def test_upgrade_and_rollback_under_load(
    deployment: Deployment,
    before: Environment,
    installed: Environment,
    counter: Counter,
    seconds: float,
) -> None:
    def ran() -> int:
        return int(counter.stats("one")["completed"])

    def waits() -> int:
        return deployment.sent - ran()

    deployment.start(before, WORKERS)
    deployment.replace_all_by(installed, seconds, waits)
    deployment.replace_all_by(before, seconds, waits)
    wait_until(lambda: len(counter.stats("one")["tasks"]) == deployment.sent, 60, "all have run")
    wait_until(lambda: counter.stats("one")["inside"] == 0, 20, "all have ended")
    assert deployment.sent > 40 * seconds / 6
    assert counter.stats("one")["max_inside"] == LIMIT
    print(f"{deployment.sent} tasks, {ran() - deployment.sent} of them again, as late acks may")
    for worker in [*deployment.workers, *deployment.ended]:
        assert "Traceback" not in worker.log()
    assert [worker.returncode for worker in deployment.ended] == [0] * 2 * WORKERS
