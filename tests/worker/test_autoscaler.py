"""The autoscaler of a worker's processes."""

from __future__ import annotations

from typing import Any

import pytest
from celery.worker import autoscale, state

from celery_semaphore.worker import autoscaler as module
from celery_semaphore.worker.autoscaler import LimitedAutoscaler
from tests.support.process import wait_until
from tests.worker.conftest import Site


class Pool:
    num_processes = 1

    def grow(self, n: int) -> None:
        self.num_processes += n

    def shrink(self, n: int) -> None:
        self.num_processes -= n

    def maintain_pool(self) -> None: ...


class Bench:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.requests = 1000.0, list[object]()
        for each in (module, autoscale):
            monkeypatch.setattr(each, "monotonic", lambda: self.now)
        monkeypatch.setattr(state, "reserved_requests", self.requests)
        self.scaler = LimitedAutoscaler(Pool(), 10, 1, worker=None, keepalive=30)

    def at(self, now: float, requests: int) -> int:
        """How many processes there are after a message at this time, with so many requests."""
        self.now = 1000.0 + now
        self.requests[:] = [object()] * requests
        self.scaler.maybe_scale(req=object())
        return int(self.scaler.processes)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


def test_it_grows_at_once_and_shrinks_to_the_most_of_the_last_seconds(bench: Bench) -> None:
    """Although messages arrive all the time."""
    assert bench.at(0, 40) == 10
    assert bench.at(1, 2) == 10
    assert bench.at(20, 4) == 10
    assert bench.at(29, 2) == 10
    assert bench.at(31, 2) == 4
    assert bench.at(51, 1) == 2
    assert bench.at(52, 7) == 7
    assert bench.at(90, 0) == 1


@pytest.mark.slow
@pytest.mark.parametrize("way", ["park", "requeue"])
def test_a_pool_shrinks_while_tasks_wait(site: Site, way: str) -> None:
    """Two of a hundred tasks run at once; the first moments needed more processes."""
    for _ in range(100):
        site.client.send_task("export", (1, 0.2), ignore_result=True)
    conf: dict[str, Any] = {
        "semaphore_on_saturated": way,
        "worker_autoscaler": "celery_semaphore.worker.autoscaler:LimitedAutoscaler",
    }
    worker = site.start(conf=conf, options=["--autoscale=8,1"], env={"AUTOSCALE_KEEPALIVE": "2"})
    wait_until(lambda: len(worker.children()) > 4, 20, "it has grown")
    wait_until(lambda: len(worker.children()) <= 4, 20, "it has shrunk")
    assert site.counter.stats("tenant 1")["completed"] < 90
    wait_until(lambda: site.counter.stats("tenant 1")["completed"] == 100, 40, "all have run")
    assert site.counter.stats("tenant 1")["max_inside"] == 2
