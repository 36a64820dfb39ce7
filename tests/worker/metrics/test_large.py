"""Many tasks on several workers: their counts are those of the counting server, exactly."""

from __future__ import annotations

import os
import signal
from collections import Counter
from functools import partial

import pytest
from celery import group

from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from ..conftest import Site
from .conftest import StartWatched, Watched

WORKERS = 3


def ran(site: Site, *resources: str) -> int:
    return sum(site.counter.stats(resource)["entries"] for resource in resources)


def send_many(site: Site, count: int) -> None:
    """Without their results: asking for ten thousand states takes longer than the tasks."""
    call = site.client.signature("call", (0.0, "many"), ignore_result=True)
    group(call for _ in range(count)).apply_async()


@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "tasks",
    [
        600,
        pytest.param(1_500, marks=[pytest.mark.slow, pytest.mark.variants]),
        pytest.param(10_000, marks=pytest.mark.soak),
    ],
)
def test_many_tasks_and_processes_that_die(site: Site, watched: StartWatched, tasks: int) -> None:
    conf = {"task_annotations": {"call": {"limit": 20}}, "worker_prefetch_multiplier": 1}
    workers = [watched(conf, concurrency=8) for _ in range(WORKERS)]
    send_many(site, tasks // 2)
    doomed = [site.send("call", None, "doomed") for _ in range(4)]
    send_many(site, tasks // 2)
    wait_until(lambda: site.inside("doomed") == len(doomed), 200, "they run")
    victims = [pid for _, what, _, _, pid, _ in site.counter.log("doomed") if what == "entered"]
    assert len(victims) == len(doomed)
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    wait_until(lambda: all(result.ready() for result in doomed), 120, "they are lost")
    assert {result.state for result in doomed} == {"FAILURE"}
    wait_until(lambda: ran(site, "many") == tasks, 300, "all have run")
    wait_until(lambda: site.inside("many") == 0, 20, "all have ended")

    assert ran(site, "doomed") == len(doomed)
    for each in workers:
        each.wait(each.get("acquired_total"), "held_seconds_count")
    seen, entered = [each.scraped() for each in workers], tasks + len(doomed)
    assert sum(each.get("acquired_total", task="call") for each in seen) == entered
    assert sum(each.get("held_seconds_count") for each in seen) == entered
    assert sum(each.get("store_seconds_count", operation="acquire") for each in seen) == entered
    assert all(each.get("acquired_total") > tasks / 20 for each in seen), (
        "each worker counts its own"
    )
    assert all(each.get("lost_total") == each.get("ended_unrun_total") == 0 for each in seen)


def test_a_worker_that_dies_takes_only_its_own_counts(
    site: Site, valkey: ValkeyServer, watched: StartWatched
) -> None:
    workers = [watched({"worker_prefetch_multiplier": 1}) for _ in range(WORKERS)]
    pids = [set(each.worker.children()) for each in workers]
    send_many(site, 600)
    wait_until(lambda: ran(site, "many") > 100, 60, "they run")
    workers[0].worker.kill_group()
    # What it had is delivered again after an hour; no process of its pool runs on.
    wait_until(lambda: ran(site, "many") >= 570, 60, "the others run the rest")
    with valkey.client() as broker:
        wait_until(lambda: not broker.llen("celery"), 60, "all others were received")
    for each, own in zip(workers[1:], pids[1:], strict=True):
        # The last ones may run still: each of them is counted by both sides, but not at one instant.
        exact = partial(is_exact, site, each, own)
        wait_until(exact, 20, "each acquire was counted")
        each.wait(0, "worker_processes", state="busy")
        wait_until(exact, 20, "and each of the tasks that began meanwhile")


def is_exact(site: Site, worker: Watched, pids: set[int]) -> bool:
    by_pid = Counter(pid for _, what, _, _, pid, _ in site.counter.log("many") if what == "entered")
    return worker.get("acquired_total") == sum(by_pid[pid] for pid in pids)
