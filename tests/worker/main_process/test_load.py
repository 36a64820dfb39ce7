"""What a worker says it has of each queue."""

from __future__ import annotations

from typing import Any

import pytest
from kombu import Producer, Queue

from celery_semaphore.ops.metrics.load import Load, loads_of_workers, ready_in, unacknowledged
from tests.support.process import wait_until
from tests.worker.conftest import Site

WAYS = ["requeue", "park"]


def check_load(site: Site, way: str, **options: Any) -> None:
    """Two run, one is prefetched, and an unlimited one is prefetched of another queue."""
    conf = {"semaphore_on_saturated": way}
    site.start(concurrency=2, queues=["celery", "other"], conf=conf, **options)
    for _ in range(2):
        site.send("export", 1, 3600.0)
    wait_until(lambda: site.inside("tenant 1") == 2, 20, "two run")
    site.send("export", 1)
    site.client.send_task("free", queue="other")
    expected = {"celery": Load(2, 1), "other": Load(0, 1)}
    wait_until(lambda: loads_of_workers(site.client) == expected, 20, "all are counted")


@pytest.mark.parametrize("way", WAYS)
def test_running_and_prefetched_tasks_are_counted(site: Site, way: str) -> None:
    check_load(site, way)


def test_in_a_pool_of_threads(site: Site) -> None:
    check_load(site, "park", pool="threads")


@pytest.mark.rabbitmq
def test_on_rabbitmq(rabbit_site: Site) -> None:
    check_load(rabbit_site, "park")


@pytest.mark.parametrize("way", WAYS)
def test_waiting_tasks_are_not_counted(site: Site, way: str) -> None:
    site.start(concurrency=3, conf={"semaphore_on_saturated": way})
    for _ in range(30):
        site.send("export", 1, 3600.0)
    wait_until(lambda: site.waiting("tenant/1") == 28, 40, "28 wait")
    wait_until(
        lambda: loads_of_workers(site.client) == {"celery": Load(2, 0)}, 20, "two are counted"
    )
    assert ready_in(site.client, ["celery"]) in ({}, {"celery": 0})


def check_ready(site: Site, **options: Any) -> None:
    for priority in (0, 5):
        site.client.send_task("free", queue="celery", priority=priority, **options)
    site.client.send_task("free", queue="celery.granted")
    site.client.send_task("free", queue="other")
    assert ready_in(site.client, ["celery", "other", "none"]) == {"celery": 3, "other": 1}


def test_ready_messages_are_counted(site: Site) -> None:
    """With every priority, and those of the granted queue."""
    check_ready(site)


@pytest.mark.rabbitmq
def test_ready_messages_are_counted_on_rabbitmq(rabbit_site: Site) -> None:
    check_ready(rabbit_site)


@pytest.mark.rabbitmq
def test_ready_messages_of_a_quorum_queue_are_counted(rabbit_site: Site) -> None:
    with rabbit_site.client.connection_for_write() as connection, connection.channel() as channel:
        quorum = Queue("celery", durable=True, queue_arguments={"x-queue-type": "quorum"})
        quorum.bind(channel).declare()
        producer = Producer(channel)
        for _ in range(3):
            producer.publish({}, routing_key="celery")
    wait_until(
        lambda: ready_in(rabbit_site.client, ["celery"]) == {"celery": 3}, 20, "three are ready"
    )


def check_scheduled(site: Site) -> None:
    """A worker with nothing but tasks that wait for their eta must stay: at its end they would start another one."""
    site.start()
    site.client.send_task("free", countdown=3600)
    wait_until(
        lambda: loads_of_workers(site.client) == {"celery": Load(scheduled=1)}, 20, "it is counted"
    )


def test_tasks_with_an_eta_are_counted(site: Site) -> None:
    check_scheduled(site)


@pytest.mark.rabbitmq
def test_tasks_with_an_eta_are_counted_on_rabbitmq(rabbit_site: Site) -> None:
    check_scheduled(rabbit_site)


def test_what_a_killed_worker_had_is_counted(site: Site) -> None:
    """On Redis it is in no queue until another worker restores it."""
    worker = site.start(concurrency=1)
    for _ in range(2):
        site.client.send_task("free", [3600.0])
    one_and_one = {"celery": Load(1, 1)}
    wait_until(lambda: loads_of_workers(site.client) == one_and_one, 20, "one runs")
    worker.kill()
    assert loads_of_workers(site.client) == {}
    assert ready_in(site.client, ["celery"]) == {}
    assert unacknowledged(site.client) >= 1


@pytest.mark.rabbitmq
def test_rabbitmq_delivers_again_what_a_killed_worker_had(rabbit_site: Site) -> None:
    rabbit_site.client.send_task("free")
    assert unacknowledged(rabbit_site.client) == 0
