"""A worker really starts, dies and shuts down as it is told."""

import signal
from collections.abc import Iterator
from typing import Protocol

import psutil
import pytest
from celery import Celery

from tests.conftest import StartWorker
from tests.support.counter import Counter
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker


class Visit(Protocol):
    def __call__(self, seconds: float) -> object: ...


@pytest.fixture
def publisher(valkey: ValkeyServer) -> Iterator[Celery]:
    with Celery("publisher", broker=valkey.url, set_as_current=False) as app:
        yield app


@pytest.fixture
def visit(publisher: Celery) -> Visit:
    """Publish a task that is inside for a while."""
    name = "tests.support.counting_app.visit"
    return lambda seconds: publisher.send_task(name, [seconds], queue="counting")


@pytest.fixture
def worker(valkey: ValkeyServer, start_worker: StartWorker) -> CeleryWorker:
    env = {"CELERY_BROKER_URL": valkey.url}
    return start_worker("tests.support.counting_app", concurrency=3, env=env)


def test_its_tasks_are_counted(worker: CeleryWorker, counter: Counter, visit: Visit) -> None:
    for _ in range(3):
        visit(0.5)
    wait_until(lambda: counter.stats("visit")["completed"] == 3, 20, "three visits")
    assert counter.stats("visit")["max_inside"] == 3


def test_a_killed_child_is_replaced_and_counted_no_more(
    worker: CeleryWorker, counter: Counter, visit: Visit
) -> None:
    visit(60)
    wait_until(lambda: counter.stats("visit")["inside"] == 1, 20, "a visit")
    busy = counter.log("visit")[-1][4]
    assert busy in worker.children()
    worker.kill_child(busy)
    wait_until(lambda: counter.stats("visit")["closed"] == 1, 5, "the end of the visit")
    wait_until(lambda: len(worker.children()) == 3, 20, "a new child", log=worker.log_tail)
    assert busy not in worker.children()


def test_a_killed_worker_leaves_nothing_behind_once_stopped(worker: CeleryWorker) -> None:
    children = worker.children()
    assert len(children) == 3
    worker.kill()
    assert worker.returncode == -signal.SIGKILL
    worker.stop()
    assert not [pid for pid in children if psutil.pid_exists(pid) and pid in worker.group()]


def test_a_warm_shutdown_waits_and_a_cold_one_does_not(
    worker: CeleryWorker,
    counter: Counter,
    visit: Visit,
    start_worker: StartWorker,
    publisher: Celery,
) -> None:
    visit(1)
    wait_until(lambda: counter.stats("visit")["inside"] == 1, 20, "a visit")
    worker.warm()
    assert worker.wait(20) == 0
    assert counter.stats("visit")["completed"] == 1

    other = start_worker("tests.support.counting_app", concurrency=1, env=worker.env)
    visit(60)
    wait_until(lambda: counter.stats("visit")["inside"] == 1, 20, "a visit")
    other.wait_until_running(publisher, 1)
    other.cold()
    other.wait(20)
    wait_until(lambda: counter.stats("visit")["inside"] == 0, 5, "the end of the visit")
    assert counter.stats("visit")["completed"] == 1


@pytest.mark.parametrize("pool", ["threads", "solo", "gevent", "eventlet"])
def test_each_pool_starts_and_counts(
    pool: str, valkey: ValkeyServer, start_worker: StartWorker, visit: Visit, counter: Counter
) -> None:
    env = {"CELERY_BROKER_URL": valkey.url}
    start_worker("tests.support.counting_app", pool=pool, env=env)
    for _ in range(2):
        visit(0.3)
    wait_until(lambda: counter.stats("visit")["completed"] == 2, 20, "two visits")
    assert counter.stats("visit")["max_inside"] == (1 if pool == "solo" else 2)


def test_a_worker_that_cannot_start_says_why(start_worker: StartWorker) -> None:
    with pytest.raises(ChildProcessError, match="no_such_app"):
        start_worker("tests.no_such_app")
