"""Limited tasks that come by a fanout exchange: on RabbitMQ they wait as all others; on Redis they fail at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from celery import Celery
from celery.result import AsyncResult
from kombu import Exchange, Queue
from kombu.common import Broadcast

from celery_semaphore import LimitedTask
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.settings import Settings
from celery_semaphore.worker.task_checks import check_tasks
from tests.support.process import wait_until

from ..conftest import Site
from .test_parking import ONE, PARK, done

CELERY = ["celery", "celery", "direct", "celery", {}]
ENV = {"QUEUES": json.dumps([CELERY, ["news", "", "broadcast", "", {}]])}


def broadcast(site: Site, name: str, *args: Any) -> AsyncResult:
    everyone = {"declare": [Exchange("news", "fanout")], "exchange": "news"}
    return site.send(name, *args, routing_key="celery", **everyone)


@pytest.mark.parametrize("name", ["hold", "dropped"])
def test_a_limited_task_fails_on_redis(site: Site, name: str) -> None:
    """It would be put into a list that no worker reads; under any policy, for an outage makes all wait."""
    site.start(concurrency=2, env=ENV)
    site.listens()
    first = broadcast(site, name, *([0.0] if name == "hold" else []), "w")
    with pytest.raises(Exception, match="came through the fanout exchange 'news'") as failed:
        first.get(timeout=20)
    assert type(failed.value).__name__ == "SemaphoreError"
    assert broadcast(site, "free").get(timeout=20), "a task without a limit comes this way"
    assert site.counter.stats("w")["entries"] == 0
    site.wait_all_back(ONE, 5)


def test_also_by_a_queue_that_a_worker_begins_to_consume(site: Site) -> None:
    site.start(concurrency=2)
    site.listens()
    control = site.client.control
    fanout = {"exchange": "news", "exchange_type": "fanout", "routing_key": "celery"}
    assert control.add_consumer("news", reply=True, timeout=1, **fanout)
    site.listens()
    with pytest.raises(Exception, match="came through the fanout exchange 'news'"):
        broadcast(site, "hold", 0.0, "w").get(timeout=20)


@pytest.mark.rabbitmq
@pytest.mark.parametrize("conf", [{}, PARK], ids=["requeue", "park"])
def test_each_worker_runs_its_own_on_rabbitmq(rabbit_site: Site, conf: dict[str, Any]) -> None:
    """All of them have one id, and wait at once; none is a copy of another, none goes elsewhere."""
    workers = [rabbit_site.start(name=name, conf=conf, env=ENV) for name in ("a", "b", "c")]
    held = rabbit_site.occupy()
    result = broadcast(rabbit_site, "hold", 0.1, "w")
    wait_until(lambda: rabbit_site.waiting() == len(workers), 20, "one waits in each worker")
    rabbit_site.let_go()
    done(held)
    entries = lambda: rabbit_site.counter.stats("w")["entries"]  # noqa: E731
    wait_until(lambda: entries() == len(workers), 20, "each ran its own")
    for worker in workers:
        worker.wait_until(lambda w=worker: f"hold[{result.id}] succeeded" in w.log(), 10, "it ran")  # type: ignore[misc]
    assert rabbit_site.counter.stats("w")["max_inside"] == 1


# -- what is known before a worker starts


@pytest.fixture
def app() -> Celery:
    app = Celery("fanout", broker="redis://localhost:1/0", set_as_current=False)
    app.conf.task_queues = [
        Queue("plain", Exchange("plain")),
        Broadcast("news"),
        Queue("mixed", [Exchange("plain").binding("x"), Exchange("all", "fanout").binding("")]),
    ]
    app.conf.task_default_queue = "plain"
    return app


def check(app: Celery, **options: Any) -> None:
    task = {"base": LimitedTask, "name": "limited", "semaphore": "s", "limit": 1, "shared": False}

    def body() -> None: ...

    app.task(**task | options)(body)
    app.finalize()
    check_tasks([app.tasks["limited"]], Settings("memory://"), prefork=True)


WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "of the task": ({}, {"queue": "news"}),
    "an object": ({}, {"queue": Broadcast("others")}),
    "of a table": ({"task_routes": {"lim*": {"queue": "news"}}}, {}),
    "of the second table": ({"task_routes": [{"other": "plain"}, {"limited": "mixed"}]}, {}),
    "the default": ({"task_default_queue": "news"}, {}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_task_that_is_routed_there_stops_the_worker(app: Celery, way: str) -> None:
    conf, options = WAYS[way]
    app.conf.update(conf)
    with pytest.raises(ConfigurationError, match=r"task limited is routed to '.*fanout") as raised:
        check(app, **options)
    assert "Route it to a queue for each worker" in str(raised.value)


@pytest.mark.parametrize("way", WAYS)
def test_it_may_where_the_broker_keeps_a_queue(app: Celery, way: str) -> None:
    conf, options = WAYS[way]
    app.conf.update(conf, broker_url="amqp://localhost:1//")
    check(app, **options)


def test_others_may_be_routed_there(app: Celery) -> None:
    """Also by a router that wants the arguments of a call."""
    app.conf.task_routes = [lambda name, args, *_, **__: args[0], {"limited": "plain"}]
    check(app)


def test_a_queue_that_is_not_known_may_be_any(app: Celery) -> None:
    app.conf.task_default_queue = "not known yet"
    check(app)
