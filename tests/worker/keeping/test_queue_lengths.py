"""A classic queue of RabbitMQ that drops its oldest messages when it is full, and what a worker keeps of it."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu import Queue

from celery_semaphore.core.permit import Permit
from celery_semaphore.worker.keeping.prefetch import Prefetch, length_warnings, lengths_of
from tests.support.process import wait_until
from tests.support.rabbit import Rabbit
from tests.support.variants import also

from ..conftest import Site
from ..messages.test_parking import ONE
from ..requests import kept_for
from .test_kept import LONG, prefetch
from .test_kept_messages import Consumer

LENGTH = 50


def app_with(arguments: dict[str, Any], broker: str = "amqp://") -> Celery:
    app = Celery("lengths", broker=broker, set_as_current=False)
    app.conf.task_queues = [Queue("celery"), Queue("short", queue_arguments=arguments)]
    return app


@pytest.mark.parametrize("how", ["warm", *also("cold")])
@pytest.mark.rabbitmq
def test_a_shutdown_drops_none_that_the_worker_had_accepted(
    rabbit_site: Site, rabbitmq_server: Rabbit, how: str
) -> None:
    """Although the queue is full, so that RabbitMQ drops its oldest: what goes back to its front."""
    site = rabbit_site
    site.lease = 60.0
    queue = ["short", "short", "direct", "short", {"x-max-length": LENGTH}]
    env = {"QUEUES": json.dumps([queue])}
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    worker = site.start(concurrency=2, conf=LONG, env=env, options=["-Q", "short"])
    assert "queue 'short' drops its oldest messages" in worker.log()
    for _ in range(200):
        site.send("hold", 0.0, "w", exchange="short", routing_key="short")
    wait_until(lambda: prefetch(site, worker) == LENGTH, 30, "it keeps as many as are safe")
    wait_until(lambda: worker.log().count("] waits ") == LENGTH, 30, "all of them")
    for _ in range(
        LENGTH
    ):  # of the 200 those are dropped that come before the worker has taken so many
        site.send("hold", 0.0, "w", exchange="short", routing_key="short")
    host = site.broker.rpartition("/")[2]
    listed = rabbitmq_server.control("list_queues", "-p", host, "name", "messages_ready")
    assert re.search(rf"short\s+{LENGTH}\b", listed)
    accepted = set(re.findall(r"Task hold\[(\S+)\] received", worker.log()))
    getattr(worker, how)()
    worker.wait(30)
    store.release("outside", [ONE])
    store.close()
    site.start(name="heir", concurrency=2, conf=LONG, env=env, options=["-Q", "short"])
    wait_until(lambda: accepted <= set(site.counter.stats("w")["tasks"]), 60, "all of them ran")


@pytest.mark.parametrize(
    ("arguments", "broker", "messages", "size"),
    [
        ({"x-max-length": 9}, "amqp://", 9, float("inf")),
        ({"x-max-length-bytes": 99}, "amqp://", float("inf"), 99),
        ({"x-max-length": 9, "x-overflow": "drop-head"}, "amqp://", 9, float("inf")),
        (
            {"x-max-length": 9, "x-overflow": "reject-publish"},
            "amqp://",
            float("inf"),
            float("inf"),
        ),
        ({"x-message-ttl": 9}, "amqp://", float("inf"), float("inf")),
        ({"x-max-length": 9}, "redis://", float("inf"), float("inf")),
    ],
)
def test_lengths(arguments: dict[str, Any], broker: str, messages: float, size: float) -> None:
    app = app_with(arguments, broker)
    found = lengths_of(app)
    assert (found.messages, found.bytes) == (messages, size)
    drops = messages < float("inf") or size < float("inf")
    assert [each for each in length_warnings(app) if "'short'" in each] == list(
        length_warnings(app)
    )
    assert len(list(length_warnings(app))) == drops


@pytest.mark.parametrize(
    ("arguments", "raised"), [({"x-max-length": 7}, 3), ({"x-max-length-bytes": 25}, 2)]
)
def test_the_prefetch_is_raised_up_to_the_length(arguments: dict[str, Any], raised: int) -> None:
    """Which counts what is prefetched anyway, too: that may also be kept."""
    c = Consumer()
    c.app = app_with(arguments)
    prefetch = Prefetch(c)
    message = SimpleNamespace(body=b"x" * 10)
    kept = [kept_for(SimpleNamespace(message=message), None, 0.0, 0.0, 0.0) for _ in range(5)]
    for each in kept:
        prefetch.raise_for(each)
    assert c.qos.value == 4 + raised
    for each in kept:
        prefetch.lower_for(each)
    assert c.qos.value == 4
    prefetch.raise_for(kept[0])
    assert c.qos.value == 5
