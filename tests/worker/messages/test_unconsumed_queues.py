"""Parked tasks of a queue that no worker consumes any more: they stall nobody, and keep their places."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery.result import AsyncResult

from celery_semaphore.core.permit import Permit
from celery_semaphore.worker.messages.broker import name_of_broker
from celery_semaphore.worker.messages.consumed_queues import of_broker
from tests.support.process import wait_until
from tests.support.variants import also
from tests.support.worker import CeleryWorker

from ..brokers import BOTH, EITHER
from ..conftest import Site
from ..test_windows import fault
from .test_parking import ONE, PARK, all_parked, done, messages, overtake, ran_once, started

TWO: dict[str, Any] = PARK | {
    "task_annotations": {"call": {"limit": 2}, "export": {"limit": 1}},
}
WITHIN_S = 3.0
ENDED_S = 10.0  # the next sweeps find what was sent to a worker that ended just then
STOPS = ["stopped", "cancelled"]


def stop(site: Site, worker: CeleryWorker, how: str) -> None:
    """Let it consume the queue no more."""
    if how == "stopped":
        worker.warm()
        worker.wait(20)
        return
    told = site.client.control.cancel_consumer(
        "bulk", destination=[worker.hostname], reply=True, timeout=1
    )
    assert told
    worker.wait_until(lambda: "Canceling queue bulk" in worker.log(), 10, "it consumes no more")


@pytest.mark.parametrize("how", STOPS)
@pytest.mark.parametrize("broker", EITHER)
def test_the_tasks_of_another_queue_go_on(
    broker: str, how: str, request: pytest.FixtureRequest
) -> None:
    """Each of the 100 would have kept its permit for ``take_up``: 25 minutes in all."""
    site: Site = request.getfixturevalue(broker)
    other = site.start(name="other", concurrency=3, conf=TWO)
    queues = ["bulk", "unlimited"]
    bulk = site.start(name="bulk", concurrency=2, queues=queues, conf=TWO)
    held = site.occupy(2, "call")
    parked = [site.send("call", 0.01, "w", queue="bulk") for _ in range(100)]
    wait_until(lambda: site.waiting("api") == 100, 20, "they are parked")
    wait_until(lambda: messages(site, request) == 0, 10, "they are acknowledged")
    stop(site, bulk, how)
    site.let_go()
    since = time.monotonic()
    others = [site.send("call", 0.01, "o") for _ in range(3)]
    done([*held, *others], WITHIN_S)
    print("the others had run after", time.monotonic() - since)  # noqa: T201 - a figure for the report
    assert not any(result.ready() for result in parked)
    wait_until(lambda: site.waiting("api") == 0, 20, "all are with the broker")
    # Any worker may have sent them, also the one that consumes other queues only.
    warned = [each.log().count("no worker consumes queue 'bulk'") for each in (other, bulk)]
    assert 1 in warned, "somebody says so"
    assert max(warned) == 1, "once an hour"
    assert "Traceback" not in other.log()
    comes_back(site, parked)


def comes_back(site: Site, parked: list[AsyncResult]) -> None:
    """Let a worker of the queue start: all stand in line at their places again, and run in that order.

    None may run before all were tried. Two workers may have sent them, each a part: that of the slower one is behind
    the other's in the queue, whatever its places are.
    """
    store = site.store()
    store.set_limit(0, "api")
    site.start(name="heir", concurrency=3, queues=["bulk"], conf=TWO)
    wait_until(lambda: site.waiting("api") == len(parked), 20, "all wait in line again")
    store.set_limit(None, "api")
    store.close()
    done(parked, 20)
    ran_once(site, "w", parked, 2, parked=False)
    places = {result.id: n for n, result in enumerate(parked)}
    moved = [abs(places[task] - n) for n, task in enumerate(started(site, "w"))]
    # One that was granted may be overtaken on its way to a process.
    assert sum(moved) / len(moved) < 3, "they keep their places"


# How a queue is consumed no more, and at how many resources its tasks wait, never meet.
@pytest.mark.parametrize("how", ["stopped", *also("cancelled")])
@pytest.mark.parametrize("broker", EITHER)
def test_at_many_resources(broker: str, how: str, request: pytest.FixtureRequest) -> None:
    site: Site = request.getfixturevalue(broker)
    site.start(name="other", concurrency=2, conf=TWO)
    queues = ["bulk", "unlimited"]
    bulk = site.start(name="bulk", concurrency=2, queues=queues, conf=TWO)
    store = site.store()
    store.set_limit(0, "tenant")
    parked = [site.send("export", n, 0.01, queue="bulk") for n in range(100)]
    waits = lambda: sum(each.waiting for each in store.totals(list(store.resources())))  # noqa: E731
    wait_until(lambda: waits() == 100, 20, "they are parked")
    wait_until(lambda: messages(site, request) == 0, 10, "they are acknowledged")
    stop(site, bulk, how)
    store.set_limit(None, "tenant")
    since = time.monotonic()
    others = [site.send("export", n, 0.01) for n in range(100)]
    wait_until(lambda: any(result.ready() for result in others), WITHIN_S, "the first has run")
    print("the first had run after", time.monotonic() - since)  # noqa: T201
    done(others, 20)
    print("all had run after", time.monotonic() - since)  # noqa: T201
    assert not any(result.ready() for result in parked)
    site.start(name="heir", concurrency=2, queues=["bulk"], conf=TWO)
    done(parked, 20)
    store.close()


@pytest.mark.parametrize("broker", EITHER)
def test_a_granted_task_goes_by_the_granted_queue_of_another_fleet(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """Its worker consumes another queue: it sends what it frees past the backlog of a queue that is not its own."""
    site: Site = request.getfixturevalue(broker)
    site.start(name="other", concurrency=2, conf=TWO)
    site.start(name="bulk", concurrency=2, queues=["bulk"], conf=TWO)
    held = site.occupy(2, "call")
    waiters = [site.send("call", 0.0, "w", queue="bulk") for _ in range(2)]
    wait_until(lambda: site.waiting("api") == 2, 20, "they are parked")
    backlog = [site.send("free", 0.2, queue="bulk") for _ in range(60)]
    freed = datetime.now(UTC)
    site.let_go()
    done([*held, *waiters, *backlog], 60)
    overtake(waiters, backlog, freed)


@pytest.mark.parametrize("broker", EITHER)
def test_a_worker_that_only_requeues_takes_what_others_parked(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """It consumes the granted queue, though none of its own tasks parks."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0  # nobody renews what the test holds
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    parker = site.start(name="parker", concurrency=2, conf=PARK)
    parked = [site.send("hold", 0.0, "w") for _ in range(20)]
    all_parked(site, request, 20)
    parker.kill_group()
    site.start(name="requeues", concurrency=2, conf={"semaphore_on_saturated": "requeue"})
    store.release("outside", [ONE])
    since = time.monotonic()
    done(parked, 5)
    print("they had run after", time.monotonic() - since)  # noqa: T201
    ran_once(site, "w", parked, 1)
    store.close()


GRANTED = "celery.granted"


@pytest.mark.parametrize("broker", EITHER)
def test_a_granted_queue_without_a_consumer_is_emptied(
    broker: str, request: pytest.FixtureRequest
) -> None:
    """Granted queues were turned off, or the right to them was taken: what lies there would lie there for ever."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0  # nobody renews what the test holds
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    before = site.start(name="before", concurrency=2, conf=PARK)
    parked = [site.send("hold", 0.0, "w") for _ in range(5)]
    all_parked(site, request, 5)
    before.warm()
    before.wait(20)
    stored = of_broker(name_of_broker(site.client), GRANTED)
    store.consume("killed", [stored])
    off = PARK | {"semaphore_granted_queues": False}
    after = site.start(name="after", concurrency=2, conf=off)
    store.release("outside", [ONE])
    (granted,) = store.snapshot("one").holders
    sent = lambda: store.snapshot("one").holders[0].expires_at > granted.expires_at  # noqa: E731
    wait_until(sent, 10, "it was sent: its permit is kept from then on")
    site.send("free").get(timeout=10)
    assert not any(result.ready() for result in parked)
    store.consume("killed", [], [stored])
    done(parked, 10)
    ran_once(
        site, "w", parked, 1, parked=False
    )  # the first one lost its permit, and is parked again
    assert "Traceback" not in after.log()
    store.close()


@pytest.mark.parametrize("broker", EITHER)
def test_a_queue_of_the_user_is_not_emptied(broker: str, request: pytest.FixtureRequest) -> None:
    """It may have such a name; its messages are no granted tasks."""
    site: Site = request.getfixturevalue(broker)
    theirs = site.send("free", queue=GRANTED)
    off = PARK | {"semaphore_granted_queues": False}
    worker = site.start(concurrency=1, conf=off, options=["--loglevel", "DEBUG"])
    worker.wait_until(lambda: "no granted tasks" in worker.log(), 10, "it looked")
    site.send("free").get(timeout=10)
    assert not theirs.ready()
    site.start(name="theirs", queues=[GRANTED])
    done([theirs], 10)


@pytest.mark.parametrize("broker", BOTH)
def test_the_last_worker_takes_no_permit_along(broker: str, request: pytest.FixtureRequest) -> None:
    """What was granted waits for its process, and behind that in its granted queue; then the worker is stopped."""
    site: Site = request.getfixturevalue(broker)
    site.start(name="other", concurrency=3, conf=TWO)
    bulk = site.start(name="bulk", concurrency=1, queues=["bulk"], conf=TWO)
    held = site.occupy(2, "call")
    parked = [site.send("call", 0.01, "w", queue="bulk") for _ in range(10)]
    wait_until(lambda: site.waiting("api") == 10, 20, "they are parked")
    wait_until(lambda: messages(site, request) == 0, 10, "they are acknowledged")
    site.send("free", 12.0, queue="bulk")
    bulk.wait_until_running(site.client, 1)
    site.let_go()
    done(held)
    wait_until(lambda: site.waiting("api") == 8, 10, "two are granted and sent")
    bulk.warm()
    since = time.monotonic()
    others = [site.send("call", 0.01, "o") for _ in range(3)]
    done(others, WITHIN_S)
    print("the others had run after", time.monotonic() - since)  # noqa: T201
    assert bulk.running(), "its own task is longer"
    assert not any(result.ready() for result in parked)
    comes_back(site, parked)


@pytest.mark.parametrize("broker", BOTH)
def test_the_last_worker_ends_while_another_one_sends(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The sender had asked whether the queue is consumed; its worker has emptied it by the time the message comes."""
    site: Site = request.getfixturevalue(broker)
    goes_on = tmp_path / "goes on"
    before = fault(site, tmp_path, "main: before publish") | {"FAULT_GOES_ON": str(goes_on)}
    conf = TWO | {"semaphore_take_up": 60.0}
    other = site.start(name="other", concurrency=2, conf=conf, env=before)
    bulk = site.start(name="bulk", concurrency=1, queues=["bulk"], conf=conf)
    held = site.occupy(2, "call")
    parked = [site.send("call", 0.01, "w", queue="bulk") for _ in range(4)]
    wait_until(lambda: site.waiting("api") == 4, 20, "they are parked")
    wait_until(lambda: messages(site, request) == 0, 10, "they are acknowledged")
    site.let_go()
    done(held)
    wait_until((tmp_path / "struck").exists, 10, "the other one is about to send")
    bulk.warm()
    bulk.wait(20)
    goes_on.touch()
    others = [site.send("call", 0.01, "o") for _ in range(3)]
    since = time.monotonic()
    done(others, ENDED_S)
    print("the others had run after", time.monotonic() - since)  # noqa: T201
    with closing(site.store()) as store:
        wait_until(lambda: not store.snapshot("api").occupied, ENDED_S, "each permit is back")
    assert not any(result.ready() for result in parked)
    assert "Traceback" not in other.log()
    comes_back(site, parked)
