"""Parked tasks: in the store until a permit is handed to them, first come, first run."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

import pytest
from celery.result import AsyncResult

from celery_semaphore.core.asker import asker_of
from celery_semaphore.core.blocking_waiter import BlockingWaiter
from celery_semaphore.core.claim import Claim
from tests.conformance.sessions.session_calls import reachable
from tests.support.process import wait_until
from tests.support.rabbit import Rabbit
from tests.support.servers import ValkeyServer
from tests.support.variants import also

from ..brokers import EITHER
from ..conftest import Site, queued, valkey_only

ONE = Claim("one", None, 1)
PARK: dict[str, Any] = {"semaphore_on_saturated": "park"}


def done(results: list[AsyncResult], timeout: float = 60) -> None:
    wait_until(lambda: all(r.ready() for r in results), timeout, "all are done")
    assert {result.state for result in results} == {"SUCCESS"}


def overtake(waiters: list[AsyncResult], backlog: list[AsyncResult], since: datetime) -> None:
    """Check that what was granted a permit then has run before most of the backlog that was left then."""
    latest = max(result.date_done for result in waiters)
    left = [result for result in backlog if result.date_done > since]
    assert len(left) > 40, "it was sent before much of it had run"
    assert sum(result.date_done < latest for result in left) < 25


def deliveries(site: Site) -> Counter[str]:
    """How often each task was received."""
    logs = "".join(worker.log() for worker in site.workers)
    return Counter(
        line.partition("[")[2][:36] for line in logs.split(" Task ") if "] received" in line
    )


def started(site: Site, resource: str) -> list[str]:
    return [task for _, event, task, *_ in site.counter.log(resource) if event == "entered"]


def ran_once(
    site: Site, resource: str, results: list[AsyncResult], limit: int, *, parked: bool = True
) -> None:
    """Each of them; a parked one was delivered twice at most, one that is published comes as often as it is due."""
    stats = site.counter.stats(resource)
    assert stats["max_inside"] <= limit
    assert {i: t["entries"] for i, t in stats["tasks"].items()} == {r.id: 1 for r in results}
    received = deliveries(site)
    assert not parked or max(received[result.id] for result in results) <= 2


@pytest.mark.parametrize("broker", EITHER)
@pytest.mark.parametrize(("name", "limit"), [("call", 1), ("call_late", 2), ("call", 5)])
def test_first_come_first_run(
    broker: str, name: str, limit: int, request: pytest.FixtureRequest
) -> None:
    """One process asks for all of them, one after the other, so their places are known."""
    site: Site = request.getfixturevalue(broker)
    conf = PARK | {"task_annotations": {name: {"limit": limit}}}
    worker = site.start(concurrency=limit + 1, conf=conf)
    held = site.occupy(limit, name)
    results = [site.send(name, 0.1, "w") for _ in range(30)]
    wait_until(lambda: site.waiting("api") == 30, 20, "all are parked")
    wait_until(lambda: messages(site, request) == (limit if "late" in name else 0), 5, "broker")
    site.let_go()
    done(held + results)
    ran_once(site, "w", results, limit)
    places = {result.id: n for n, result in enumerate(results)}
    moved = [abs(places[task] - n) for n, task in enumerate(started(site, "w"))]
    assert max(moved) < limit, "of those who are let in together, any may be the first"
    assert worker.log().count("is parked") == 30
    site.wait_all_back(Claim("api", None, limit), 5)


def messages(site: Site, request: pytest.FixtureRequest) -> int:
    """All that the broker has of task messages, those that a worker keeps too."""
    if site.broker.startswith("redis"):
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        with valkey.client() as broker:
            return int(
                sum(broker.llen(q) for q in ("celery", "celery.granted")) + broker.hlen("unacked")
            )
    server: Rabbit = request.getfixturevalue("rabbitmq_server")
    counts = server.messages(site.broker)
    return sum(counts[queue] for queue in ("celery", "celery.granted"))


def all_parked(site: Site, request: pytest.FixtureRequest, count: int) -> None:
    """Wait until the store has so many messages, and the broker none: a worker that ends before returns the others."""
    wait_until(lambda: site.waiting() == count, 20, "they are in line")
    wait_until(lambda: messages(site, request) == 0, 10, "they are acknowledged")


@pytest.mark.parametrize(
    ("name", "pool"),
    [
        ("call", "prefork"),
        ("call_late", "prefork"),
        ("call_late", "threads"),
        ("call", "gevent"),
        *also(("call", "threads"), ("call_late", "gevent")),
    ],
)
def test_a_crowd(site: Site, pool: str, name: str) -> None:
    site.lease = 60.0
    for worker in "ab":
        site.start(name=worker, pool=pool, concurrency=6, conf=PARK)
    results = [site.send(name, 0.05, "api") for _ in range(75)]
    done(results)
    ran_once(site, "api", results, 5)
    assert site.counter.stats("api")["max_inside"] > 1
    site.wait_all_back(Claim("api", None, 5), 5)


def test_each_key_has_its_line(site: Site) -> None:
    site.lease = 60.0
    site.start(concurrency=8, conf=PARK)
    tenants = ["a", "", "{x}", "é\x00\n", "a:b"]
    results = {t: [site.send("export", t, 0.1) for _ in range(12)] for t in tenants}
    done([result for each in results.values() for result in each])
    for tenant, each in results.items():
        ran_once(site, f"tenant {tenant}", each, 2)
        site.wait_all_back(Claim("tenant", tenant, 2), 5)


def test_several_limits_at_once(site: Site) -> None:
    site.lease = 60.0
    site.start(concurrency=8, conf=PARK)
    results = [site.send("both", t, 0.05) for _ in range(10) for t in "abcd"]
    done(results)
    assert site.counter.stats("total")["max_inside"] <= 3
    assert all(site.counter.stats(f"each {t}")["max_inside"] == 1 for t in "abcd")
    assert site.counter.stats("total")["entries"] == 40
    assert max(deliveries(site)[result.id] for result in results) <= 2
    site.wait_all_back(Claim("total", None, 3), 5)


def test_priorities(site: Site) -> None:
    """Redis counts them downwards."""
    site.start(concurrency=2, conf=PARK)
    held = site.occupy()
    results = [site.send("hold", 0.05, "w", priority=priority) for priority in (9, 6, 3, 0)]
    wait_until(lambda: site.waiting() == 4, 20, "all are parked")
    site.let_go()
    done(held + results)
    assert started(site, "w") == [result.id for result in reversed(results)]


@pytest.mark.parametrize("default", [0, 5])
@pytest.mark.parametrize("broker", EITHER)
def test_a_call_has_its_place_among_tasks_without_a_priority(
    broker: str, default: int, request: pytest.FixtureRequest
) -> None:
    """Whichever way the broker counts priorities; an app may give its own to messages without one."""
    site: Site = request.getfixturevalue(broker)
    site.start(concurrency=2, conf={"task_default_priority": default})
    held, store = site.occupy(), site.store()
    # Without a Semaphore: its thread would go on to reap, and begin epochs in the servers of later tests.
    call = BlockingWaiter(store, [ONE], 60)
    try:  # each must be reachable before the next one comes: a wait in transit would be passed
        with ThreadPoolExecutor(1) as caller:
            earlier = site.send("hold", 0.05, "w", priority=default)
            wait_until(lambda: len(reachable(store, "one")) == 1, 20, "a task waits")
            answer = caller.submit(call.acquire)
            wait_until(lambda: len(reachable(store, "one")) == 2, 20, "the call waits")
            later = [site.send("hold", 0.05, "w", priority=default) for _ in range(3)]
            wait_until(lambda: len(reachable(store, "one")) == 5, 20, "all wait")
            site.let_go()
            permit, _ = answer.result(60)
        came = started(site, "w")
        store.release(permit.holder, [ONE])
    finally:
        asker_of(store).end_if_idle()
    assert came == [earlier.id]
    done([*held, earlier, *later])
    assert site.counter.stats("w")["max_inside"] == 1
    store.close()


@valkey_only
def test_a_store_that_would_lose_them_is_named_once(site: Site) -> None:
    said = "Parked tasks lie in this server"
    assert said not in site.start(name="requeues", concurrency=1).log()
    worker = site.start(name="parks", concurrency=2, conf=PARK)
    done([site.send("hold", 0.0, "w") for _ in range(3)])
    assert worker.log().count(said) == 1


def test_what_another_worker_may_have_by_now_is_not_acknowledged(
    site: Site, valkey: ValkeyServer
) -> None:
    """Its worker was busy for longer than the visibility timeout; kombu delivers again with the same tag."""
    options = {"visibility_timeout": 2, "unacked_restore_interval": 1_000_000}
    conf = PARK | {"broker_transport_options": options, "worker_prefetch_multiplier": 1}
    site.start(concurrency=1, conf=conf)
    store = site.store()
    store.set_limit(0, "one")
    busy = site.send("free", 3.0)
    late = site.send("hold", 0.0, "w")
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    assert busy.ready()
    prompt = site.send("hold", 0.0, "w")  # the prefetch is 1
    wait_until(lambda: site.waiting() == 2, 20, "the other one is parked")
    left = [late.id]
    wait_until(lambda: [each["id"] for each in queued(valkey)] == left, 5, "one is acknowledged")
    store.set_limit(None, "one")
    store.close()
    done([late, prompt], 20)
    ran_once(site, "w", [late, prompt], 1)
