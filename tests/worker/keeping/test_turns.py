"""Turns: a freed permit goes to the first in line whose worker can begin, and nothing idles for a prediction."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from celery.result import AsyncResult

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker

from ..brokers import EITHER
from ..conftest import Site, valkey_only
from ..messages.test_parking import done
from ..messages.test_route import QUORUM, waits

ONE = Claim("one", None, 1)
LONG = waits(60.0, 60.0)
NEXT_S = (
    4.5  # in which the next in line begins, whatever became of the first: two grants, and a margin
)


@pytest.fixture(params=EITHER)
def broker(request: pytest.FixtureRequest) -> Site:
    site: Site = request.getfixturevalue(request.param)
    site.lease = 30.0
    return site


@contextmanager
def taken(site: Site) -> Iterator[None]:
    """The permit is held outside the workers."""
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    try:
        yield
    finally:
        store.release("outside", [ONE])
        store.close()


def starts_with(site: Site, name: str, **options: Any) -> CeleryWorker:
    """A worker with a queue of its own."""
    conf = {**LONG, **options.pop("conf", {})}
    return site.start(name=name, conf=conf, queues=[name], **options)


def waits_in(site: Site, worker: CeleryWorker, queue: str, count: int = 1) -> list[AsyncResult]:
    """Send them one after the other, each when the one before waits."""
    sent = []

    def more_wait(before: int) -> bool:
        return site.waiting() > before

    for _ in range(count):
        before = site.waiting()
        sent.append(site.send("hold", 0.0, "w", queue=queue))
        worker.wait_until(partial(more_wait, before), 20, "it waits")
    return sent


def began(site: Site) -> list[str]:
    return [task for _, event, task, *_ in site.counter.log("w") if event == "entered"]


def ids(results: list[AsyncResult]) -> list[str]:
    return [each.id for each in results]


def test_two_workers_begin_in_the_order_of_the_line(broker: Site) -> None:
    workers = {name: starts_with(broker, name, concurrency=2) for name in ("a", "b")}
    results = []
    with taken(broker):
        for _ in range(6):
            for name, worker in workers.items():
                results += waits_in(broker, worker, name)
    done(results)
    assert began(broker) == ids(results)


def test_requeued_and_parked_ones_stand_in_one_line(broker: Site) -> None:
    keeps = starts_with(broker, "keeps", concurrency=2)
    parks = starts_with(broker, "parks", concurrency=2, conf={"semaphore_on_saturated": "park"})
    results = []
    with taken(broker):
        for _ in range(4):
            results += waits_in(broker, keeps, "keeps")
            results += waits_in(broker, parks, "parks")
    done(results)
    assert began(broker) == ids(results)


def test_nothing_idles_for_a_prediction(broker: Site) -> None:
    """Nothing is known of these tasks, so a second is expected for each: they take none."""
    worker = starts_with(broker, "a", concurrency=2)
    with taken(broker):
        results = waits_in(broker, worker, "a", 20)
    since = time.monotonic()
    done(results)
    assert time.monotonic() - since < 10


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_the_next_one_does_not_wait_for_a_worker_that_is_gone(
    broker: Site, how: signal.Signals
) -> None:
    """Its wait keeps its place; when it goes on, it has its turn."""
    first, second = (starts_with(broker, name, concurrency=1) for name in ("first", "second"))
    with taken(broker):
        (head,) = waits_in(broker, first, "first")
        (following,) = waits_in(broker, second, "second")
        first.signal(how)
    since = time.monotonic()
    wait_until(lambda: began(broker) == [following.id], 2 * NEXT_S, "the next one began")
    assert time.monotonic() - since < NEXT_S
    done([following])
    if how is signal.SIGSTOP:
        first.signal(signal.SIGCONT)
        done([head])


def test_the_next_one_does_not_wait_for_a_worker_without_a_free_process(broker: Site) -> None:
    first, second = (starts_with(broker, name, concurrency=1) for name in ("first", "second"))
    with taken(broker):
        (head,) = waits_in(broker, first, "first")
        (following,) = waits_in(broker, second, "second")
        broker.send("call", None, "busy", queue="first")
        wait_until(lambda: broker.inside("busy") == 1, 20, "its only process is busy")
    wait_until(lambda: began(broker) == [following.id], 2 * NEXT_S, "the next one began")
    done([following])
    broker.let_go("busy")
    done([head])


def test_what_is_granted_goes_before_what_is_prefetched(broker: Site) -> None:
    """Its permit idles until it begins, and the others need none."""
    worker = starts_with(broker, "a", concurrency=1)
    with taken(broker):
        (waiting,) = waits_in(broker, worker, "a")
        others = [broker.send("free", 1.0, queue="a") for _ in range(6)]
        wait_until(lambda: worker.log().count("Task free") >= 4, 20, "some are prefetched")
    done([waiting])
    assert not others[-1].ready()
    done(others)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_what_a_release_of_the_worker_itself_granted_needs_no_question(
    broker: Site, pool: str, tmp_path: Path
) -> None:
    """From some moment on no question is answered: each task begins since the one before it ended."""
    silent = tmp_path / "silent"
    worker = starts_with(
        broker, "a", concurrency=2, pool=pool, env={"ANSWER_NO_QUESTION": str(silent)}
    )
    running = broker.send("hold", None, "running", queue="a")
    wait_until(lambda: broker.inside("running") == 1, 20, "it runs")
    results = waits_in(broker, worker, "a", 5)
    silent.touch()
    worker.wait_until(lambda: "cannot ask for" in worker.log(), 20, "nothing is answered")
    broker.let_go("running")
    done([running, *results])
    assert began(broker) == ids(results)


def test_a_pause_that_ends_is_noticed_at_once(broker: Site) -> None:
    worker, store = starts_with(broker, "a", concurrency=1), broker.store()
    with taken(broker):
        (result,) = waits_in(broker, worker, "a")
        store.set_limit(0, "one")
    other = broker.send("hold", 0.0, "w", queue="a")
    worker.wait_until(lambda: "is paused" in worker.log(), 20, "a pause lets nobody in")
    assert began(broker) == []
    store.set_limit(None, "one")
    store.close()
    since = time.monotonic()
    done([result, other])
    assert time.monotonic() - since < 10, (
        "not when the session names what it keeps, once in a lease"
    )
    assert began(broker) == ids([result, other])


@valkey_only
def test_a_store_that_forgot_is_told_who_waits(site: Site, valkey: ValkeyServer) -> None:
    """They begin in their order, after the grace."""
    site.lease = 3.0
    worker = starts_with(site, "a", concurrency=1)
    with taken(site):
        results = waits_in(site, worker, "a", 5)
        with valkey.client(1) as client:
            client.flushdb()
    done(results)
    assert began(site) == ids(results)
    assert worker.log().count("] waits ") == 5, "none was refused again"


@pytest.mark.rabbitmq
def test_the_kept_ones_of_a_quorum_queue_have_their_turn_beside_a_parked_line(
    rabbit_site: Site,
) -> None:
    """The line of parked tasks never ends, and the requeued ones begin before those that came later."""
    site = rabbit_site
    site.lease = 30.0
    site.client.conf.update(QUORUM)
    keeps = starts_with(site, "keeps", concurrency=2, conf=QUORUM)
    parks = starts_with(
        site, "parks", concurrency=2, conf=QUORUM | {"semaphore_on_saturated": "park"}
    )
    with taken(site):
        earlier = waits_in(site, parks, "parks", 3)
        requeued = waits_in(site, keeps, "keeps", 2)
        later = waits_in(site, parks, "parks", 3)

    def goes_on() -> bool:
        while site.waiting() < 5:
            later.append(site.send("hold", 0.1, "w", queue="parks"))
        return all(each.ready() for each in requeued)

    wait_until(goes_on, 30, "the requeued ones ran")
    assert began(site)[: len(earlier) + len(requeued)] == ids(earlier + requeued)


@pytest.mark.rabbitmq
def test_more_wait_than_half_of_the_prefetch_of_a_quorum_queue(rabbit_site: Site) -> None:
    """The others are published, and all have their turn."""
    site = rabbit_site
    site.lease = 30.0
    site.client.conf.update(QUORUM)
    conf = {**QUORUM, **waits(1.0, 2.0)}
    keeps = site.start(name="keeps", concurrency=1, conf=conf)
    with taken(site):
        results = [site.send("hold", 0.0, "w") for _ in range(8)]
        keeps.wait_until(lambda: site.waiting() >= 2, 20, "half of the prefetch waits here")
        wait_until(lambda: keeps.log().count("] waits ") >= 8, 30, "the others are published")
    done(results)
    assert sorted(began(site)) == sorted(ids(results))
