"""An autoscaler that follows ``/scale``, real workers of two processes, and limited tasks that wait.

The counting server says what ran. Each test prints how many workers there were, and how often they started.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from celery_semaphore.ops.metrics.load import ready_in
from tests.support.autoscaler import Autoscaler
from tests.support.process import wait_until
from tests.support.variants import also
from tests.support.worker import CeleryWorker
from tests.worker.conftest import Site

from .conftest import StartExporter

LIMIT = 5  # of the task `call`
SECONDS = 0.2
SLOW_S = 3.0  # from when the workers are ready to the next poll: longer than their first attempts
MOST = 4  # workers of two processes for five permits, and one more
WAYS = ["park", *also("requeue")]


class Cluster:
    """Workers that come and go, and an exporter."""

    def __init__(self, site: Site, start_exporter: StartExporter, way: str) -> None:
        self.site = site
        self.conf = {"semaphore_on_saturated": way, "worker_prefetch_multiplier": 1}
        self.exporter = start_exporter("--interval", "0.2", "-Q", "celery", env=site.env(self.conf))
        self.exporter.wait_up()

    def launch(self) -> CeleryWorker:
        worker = CeleryWorker("tests.worker.app", concurrency=2, env=self.site.env(self.conf))
        self.site.workers.append(worker)  # who ends them all
        worker.launch()
        return worker

    def send(self, count: int, task: str = "call", *args: Any) -> None:
        for _ in range(count):
            self.site.client.send_task(task, args, ignore_result=True)

    def done(self) -> int:
        return int(self.site.counter.stats("api")["completed"])

    def said(self) -> dict[str, int]:
        status, body = self.exporter.scale()
        found: dict[str, int] = json.loads(body)
        assert status == 200, body
        return found

    @contextmanager
    def scaled(self, **options: Any) -> Iterator[Autoscaler]:
        scaler = Autoscaler(self.exporter.port, "celery", self.launch, **options)
        try:
            with scaler:
                yield scaler
        finally:
            print(scaler.report())  # noqa: T201 - for those who look


@pytest.fixture(params=WAYS)
def cluster(request: pytest.FixtureRequest, site: Site, start_exporter: StartExporter) -> Cluster:
    return Cluster(site, start_exporter, request.param)


@pytest.fixture(params=WAYS)
def rabbit_cluster(
    request: pytest.FixtureRequest, rabbit_site: Site, start_exporter: StartExporter
) -> Cluster:
    return Cluster(rabbit_site, start_exporter, request.param)


def check_waiting_tasks(cluster: Cluster, tasks: int) -> None:
    """Tasks that no worker has tried are ready, so one poll may add one worker, and no more."""
    cluster.send(tasks, "call", SECONDS)
    with cluster.scaled(growth=1, pause=SLOW_S, awaits_ready=True) as scaler:
        wait_until(lambda: cluster.done() == tasks, 90, "all have run")
        counts = [count for at, _, count in scaler.history]
        assert max(counts) <= MOST, counts
        assert min(counts) >= 1, "one was left until the last task had run"
        wait_until(lambda: not scaler.workers, 20, "none is left")
    assert cluster.site.counter.stats("api")["max_inside"] <= LIMIT
    assert cluster.said() == {"runnable": 0, "waiting": 0, "floor": 0}
    assert cluster.done() == tasks


@pytest.mark.slow
def test_waiting_tasks_start_few_workers(cluster: Cluster) -> None:
    check_waiting_tasks(cluster, 150)


@pytest.mark.soak
def test_many_waiting_tasks_start_few_workers(cluster: Cluster) -> None:
    check_waiting_tasks(cluster, 500)


@pytest.mark.soak
@pytest.mark.rabbitmq
def test_many_waiting_tasks_start_few_workers_on_rabbitmq(rabbit_cluster: Cluster) -> None:
    check_waiting_tasks(rabbit_cluster, 500)


def check_growth(cluster: Cluster, unlimited: int, seconds: float = 0.2) -> None:
    """Unlimited tasks in the same queue; each poll is longer than a collection. The permits are kept meanwhile."""
    cluster.send(100, "call", None)
    with cluster.scaled(growth=2, pause=2.0) as scaler:

        def settled() -> bool:
            last = scaler.history[-3:]
            return len({count for _, _, count in last}) == 1 and last[-1][1]["waiting"] >= 80

        wait_until(settled, 60, "most tasks wait, and the number of workers stays")
        with scaler.polling:  # a busy machine sends so slowly that the workers run them meanwhile
            before, polls = len(scaler.workers), len(scaler.history)
            cluster.send(unlimited, "free", seconds)

        def seen() -> int | None:
            """The first poll that can know of them."""
            later = range(polls, len(scaler.history))
            return next((n for n in later if scaler.history[n][1]["runnable"] > 4 * before), None)

        first = wait_until(seen, 20, "a poll sees them")
        wait_until(lambda: len(scaler.history) >= first + 2, 20, "two polls")
        assert max(count for _, _, count in scaler.history[first : first + 2]) > before
        cluster.site.let_go("api")
        wait_until(lambda: cluster.done() == 100, 60, "all have run")
        wait_until(lambda: not scaler.workers, 60, "none is left")
    assert cluster.said() == {"runnable": 0, "waiting": 0, "floor": 0}


@pytest.mark.slow
def test_unlimited_tasks_beside_them_start_more(cluster: Cluster) -> None:
    check_growth(cluster, 250)


@pytest.mark.soak
def test_many_unlimited_tasks_beside_them_start_more(cluster: Cluster) -> None:
    check_growth(cluster, 5000, 0.02)


@pytest.mark.soak
@pytest.mark.rabbitmq
def test_many_unlimited_tasks_beside_them_start_more_on_rabbitmq(rabbit_cluster: Cluster) -> None:
    check_growth(rabbit_cluster, 5000, 0.02)


def check_given_back(cluster: Cluster) -> None:
    """A worker that is scaled down gives its waiting tasks back: they are ready, and one of them can run."""
    cluster.send(100, "hold", None)
    worker = cluster.launch().wait_ready()
    store = cluster.site.store()
    wait_until(lambda: store.totals(["one"])[0].reachable == 99, 40, "all others wait")
    wait_until(lambda: cluster.said() == {"runnable": 1, "waiting": 99, "floor": 1}, 20, "one runs")
    worker.warm()
    wait_until(lambda: store.totals(["one"])[0].in_transit == 99, 20, "they went back")
    wait_until(
        lambda: ready_in(cluster.site.client, ["celery"]) == {"celery": 99}, 20, "all of them"
    )
    wait_until(
        lambda: cluster.said() == {"runnable": 0, "waiting": 99, "floor": 1}, 20, "one runs on"
    )
    cluster.site.let_go("one")
    worker.wait(20)
    wait_until(lambda: cluster.said() == {"runnable": 1, "waiting": 99, "floor": 1}, 20, "one can")
    store.close()


@pytest.mark.parametrize("cluster", ["requeue"], indirect=True)
def test_what_a_worker_gave_back_starts_few_workers(cluster: Cluster) -> None:
    check_given_back(cluster)


@pytest.mark.variants
@pytest.mark.rabbitmq
def test_what_a_worker_gave_back_starts_few_workers_on_rabbitmq(
    rabbit_site: Site, start_exporter: StartExporter
) -> None:
    rabbit_site.lease = 10.0  # for so long a wait that was given back keeps its place; so late it counts as in transit
    check_given_back(Cluster(rabbit_site, start_exporter, "requeue"))
