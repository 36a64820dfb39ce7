"""Celery on SQS, permits and waiting tasks in DynamoDB: workers without remote control."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import pytest
from kombu import pools

from celery_semaphore.core.claim import Claim
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.counter import Counter, CounterServer
from tests.support.dynamodb import KEYS, REGION, EmulatorServer
from tests.support.process import wait_until
from tests.support.worker import CeleryWorker

from .conftest import Site

pytestmark = pytest.mark.variants
API = Claim("api", None, 5)
TASKS = 40


class SqsSite(Site):
    """A broker and a store that are one emulator; no result backend."""

    options: dict[str, Any]

    def store(self) -> Any:
        options = StoreOptions(transport_options=self.options, lease=self.lease)
        return store_from_url(self.store_url, options)

    def env(self, conf: dict[str, Any] | None = None) -> dict[str, str]:
        found = super().env(conf) | KEYS
        del found["BACKEND"]
        return found


@pytest.fixture
def site(
    emulator_server: EmulatorServer, counter_server: CounterServer, counter: Counter
) -> Iterator[SqsSite]:
    # Each test has queues of its own.
    transport = {
        "region": REGION,
        "is_secure": False,
        "wait_time_seconds": 1,
        "polling_interval": 0.1,
        "visibility_timeout": 60,
        "queue_name_prefix": f"{uuid4().hex}-",
    }
    options = {"endpoint_url": emulator_server.url}
    site = SqsSite(
        broker=f"sqs://nobody:nothing@127.0.0.1:{emulator_server.port}//",
        backend="",
        store_url=f"dynamodb://{REGION}/{emulator_server.new_table()}",
        counter_env=dict(counter_server.env),
        counter=counter,
        lease=10.0,
        conf={
            "broker_transport_options": transport,
            "semaphore_transport_options": options,
        },
    )
    site.options = options
    site.client.conf.update(result_backend=None, broker_transport_options=transport)
    try:
        yield site
    finally:
        site.stop()
        pools.reset()


def send_all(site: Site, name: str, seconds: float = 0.1) -> None:
    for _ in range(TASKS):
        site.client.send_task(name, (seconds,), ignore_result=True)


def succeeded(workers: list[CeleryWorker]) -> int:
    return sum(worker.log().count("] succeeded in ") for worker in workers)


def all_ran(site: Site) -> Callable[[], bool]:
    return lambda: len(site.counter.stats("api")["tasks"]) == TASKS and not site.inside("api")


@pytest.mark.parametrize("granted_queues", [True, False])
def test_parked_tasks_stay_at_the_limit_and_all_run(site: SqsSite, *, granted_queues: bool) -> None:
    conf = {"semaphore_granted_queues": granted_queues}
    workers = [site.start(conf=conf, concurrency=4) for _ in range(2)]
    began = time.monotonic()
    send_all(site, "free")
    wait_until(lambda: succeeded(workers) == TASKS, 120, "all plain tasks have run")
    plain, began = time.monotonic() - began, time.monotonic()
    send_all(site, "call")
    wait_until(all_ran(site), 120, "all have run")
    # Beside each other, since each says little on a busy machine.
    print(f"{TASKS} plain: {plain:.1f} s, limited: {time.monotonic() - began:.1f} s")  # noqa: T201
    stats = site.counter.stats("api")
    assert stats["max_inside"] <= 5
    assert stats["entries"] == TASKS
    log = "".join(worker.log() for worker in workers)
    assert "Traceback" not in log
    assert "CRITICAL" not in log
    site.wait_all_back(API, 30)


def test_waiting_tasks_are_parked_without_being_told_to(site: SqsSite) -> None:
    worker = site.start(concurrency=7)
    for _ in range(12):
        site.client.send_task("call", (None, "held"), ignore_result=True)
    wait_until(lambda: site.inside("held") == 5, 40, "as many run as may")
    store = site.store()
    wait_until(lambda: store.durability(99).parked == 7, 40, "those without a permit are parked")
    assert "waiting tasks are parked in DynamoDB" in worker.log()
    site.let_go("held")
    wait_until(lambda: len(site.counter.stats("held")["tasks"]) == 12, 60, "all have run")
    wait_until(lambda: store.durability(99).parked == 0, 20, "nothing is left")
    assert site.counter.stats("held")["max_inside"] <= 5
    assert "CRITICAL" not in worker.log()
    store.close()
