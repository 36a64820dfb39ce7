"""Granted messages that reach a worker without a free process: they go on to one that has one, with their permits."""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import pytest
from celery.result import AsyncResult

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.worker.main_process.unstarted_messages import PAUSE_S
from tests.support.process import wait_until
from tests.support.worker import CeleryWorker

from ..brokers import EITHER
from ..conftest import Site
from .test_parking import ONE, PARK, deliveries, done
from .test_route import QUORUM

API = Claim("api", None, 5)
LONGEST_IDLE_S = 1.0  # without a start, while tasks wait and a process is free


def parked_beside_a_busy_worker(
    site: Site, store: Store, claim: Claim, count: int, **conf: Any
) -> tuple[list[AsyncResult], list[AsyncResult]]:
    """Park so many tasks behind permits that are taken outside, beside a worker of two processes without a free one.

    Return their results, and those of the tasks that keep its processes until the test lets them go.
    """
    site.start(name="idle", concurrency=2, conf=PARK | conf)
    for n in range(claim.limit or 0):
        assert isinstance(store.acquire([claim], f"outside-{n}"), Permit)
    name = {"one": "hold", "api": "call"}[claim.semaphore]
    results = [site.send(name, 0.1, "w") for _ in range(count)]
    wait_until(lambda: store.snapshot(claim.resource).waiting == count, 40, "they are parked")
    site.start(name="busy", concurrency=2, queues=["celery", "work"], conf=PARK | conf)
    works = site.occupy(2, task="stay", resource="work", queue="work")
    works += [site.send("stay", None, "work", queue="work") for _ in range(2)]
    return results, works


def let_run(store: Store, claim: Claim) -> None:
    for n in range(claim.limit or 0):
        store.release(f"outside-{n}", [claim])


def starts(site: Site, resource: str) -> list[float]:
    return [at for at, event, *_ in site.counter.log(resource) if event == "entered"]


@pytest.mark.slow
@pytest.mark.parametrize("broker", EITHER)
@pytest.mark.parametrize("claim", [ONE, API], ids=["limit 1", "limit 5"])
def test_no_permit_idles_beside_a_free_process(
    broker: str, claim: Claim, request: pytest.FixtureRequest
) -> None:
    """Half of what is granted reaches the busy worker first."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0
    store = site.store()
    results, busy = parked_beside_a_busy_worker(site, store, claim, 40)
    let_run(store, claim)
    wait_until(lambda: site.counter.stats("w")["completed"] == 40, 30, "all have run")
    began = starts(site, "w")
    assert max(b - a for a, b in pairwise(began)) < LONGEST_IDLE_S
    done(results)
    assert not any(each.ready() for each in busy)
    site.let_go("work")
    done(busy)
    store.close()


@pytest.mark.rabbitmq
def test_a_quorum_queue_delivers_none_too_often(rabbit_site: Site) -> None:
    """It would drop a message after some returns: the message stays, and the next one in line gets its permit."""
    site = rabbit_site
    site.lease = 60.0
    site.client.conf.update(QUORUM)
    store = site.store()
    results, busy = parked_beside_a_busy_worker(site, store, ONE, 20, **QUORUM)
    let_run(store, ONE)
    # The busy worker keeps what it receives, two at most after each pause, and asks again once it has a free process.
    keeps = lambda: [each for each in results if received(site.workers[1], each)]  # noqa: E731
    ran = lambda: site.counter.stats("w")["completed"]  # noqa: E731
    wait_until(lambda: ran() + len(keeps()) >= 20, 20, "the others have run")
    began = starts(site, "w")
    assert 0 < len(kept := keeps()) <= 2 + 2 * (began[-1] - began[0]) / PAUSE_S
    assert not any(each.ready() for each in kept)
    assert max(b - a for a, b in pairwise(began)) < LONGEST_IDLE_S
    site.let_go("work")
    done([*busy, *results])
    assert max(deliveries(site)[result.id] for result in results) <= 3
    assert site.counter.stats("w")["max_inside"] == 1
    store.close()


@pytest.mark.slow
@pytest.mark.parametrize("broker", EITHER)
def test_all_workers_are_busy(broker: str, request: pytest.FixtureRequest) -> None:
    """What is granted still begins before what they have prefetched, and goes round at most once a second for each."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0
    store = site.store()
    workers = [
        site.start(name=name, concurrency=1, queues=["celery", name], conf=PARK) for name in "ab"
    ]
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: store.snapshot("one").waiting == 1, 20, "it is parked")
    for name in "ab":
        site.occupy(task="stay", resource=f"work {name}", queue=name)
    backlog = [site.send("free", 0.5, queue=name) for name in "ab" for _ in range(40)]
    store.release("outside", [ONE])
    time.sleep(6)
    for name in "ab":
        site.let_go(f"work {name}")
    done([result], 20)
    assert sum(each.ready() for each in backlog) < 40
    # Parked once; then each of both received it at most once a second.
    assert 3 <= sum(received(worker, result) for worker in workers) <= 1 + 2 * 12
    store.close()


@pytest.mark.parametrize("broker", EITHER)
def test_a_lone_worker_keeps_what_it_will_begin(
    broker: str, request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0
    store = site.store()
    worker = site.start(concurrency=1, conf=PARK)
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: store.snapshot("one").waiting == 1, 20, "it is parked")
    site.occupy(task="stay", resource="work")
    store.release("outside", [ONE])
    site.send("free", 0.0)
    worker.wait_until(lambda: received(worker, result) == 2, 20, "it waits for the process")
    time.sleep(2)
    assert received(worker, result) == 2
    # A second one comes: the first must not learn of it a lease later.
    site.start(name="idle", concurrency=1, conf=PARK)
    done([result], 5)
    assert site.inside("work") == 1
    site.let_go("work")
    store.close()


@pytest.mark.parametrize("broker", EITHER)
def test_goes_to_another_worker_at_a_shutdown(broker: str, request: pytest.FixtureRequest) -> None:
    """Its worker may take hours to finish what runs; the message does not wait for that."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0
    store = site.store()
    ends = site.start(name="ends", concurrency=1, conf=PARK)
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: store.snapshot("one").waiting == 1, 20, "it is parked")
    site.occupy(task="stay", resource="work")
    store.release("outside", [ONE])
    ends.wait_until(lambda: received(ends, result) == 2, 20, "it waits for the process")
    ends.warm()
    site.start(name="heir", concurrency=1, conf=PARK)
    done([result], 10)
    assert site.inside("work") == 1
    site.let_go("work")
    ends.wait(20)
    assert site.counter.stats("w")["entries"] == 1
    store.close()


def received(worker: CeleryWorker, result: AsyncResult) -> int:
    return worker.log().count(f"hold[{result.id}] received")


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.parametrize("broker", EITHER)
def test_a_rate_limit_is_paid_once(broker: str, pool: str, request: pytest.FixtureRequest) -> None:
    """It was paid by the first attempt: a granted task that paid again would keep its permit idle for that time."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    conf = PARK | {"task_annotations": {"hold": {"rate_limit": "1/h"}}}
    worker = site.start(pool=pool, concurrency=2, conf=conf)
    first = site.send("hold", 0.0, "w")
    wait_until(lambda: store.snapshot("one").waiting == 1, 20, "it is parked")
    second = site.send("hold", 0.0, "w")
    received = f"hold[{second.id}] received"
    worker.wait_until(lambda: received in worker.log(), 20, "another one waits for the rate")
    store.release("outside", [ONE])
    done([first], 10)
    assert site.send("free").get(timeout=10)
    assert list(site.counter.stats("w")["tasks"]) == [first.id]
    store.close()
