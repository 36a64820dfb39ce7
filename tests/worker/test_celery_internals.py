"""Each private part of Celery and kombu that the library touches is still there; other tests show what it means."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.concurrency import get_implementation
from celery.concurrency.prefork import TaskPool
from celery.worker import strategy
from celery.worker.consumer import Consumer
from celery.worker.request import Request
from kombu import Connection, Exchange, Queue
from kombu.asynchronous.semaphore import LaxBoundedSemaphore
from kombu.asynchronous.timer import Timer
from kombu.common import QoS
from kombu.transport.redis import Channel
from kombu.utils.limits import TokenBucket

from celery_semaphore.worker import celery_internals
from tests.support.process import ROOT
from tests.support.servers import ValkeyServer
from tests.worker.requests import limited, message_of

HERE = Path(celery_internals.__file__)
LIBRARY = ROOT / "celery_semaphore"


def test_a_request_has_the_attributes(app: Celery) -> None:
    task = limited(app)
    request = Request(message_of(task), app=app, task=task)
    assert [
        name for name in celery_internals.REQUEST_ATTRIBUTES if not hasattr(request, name)
    ] == []


def test_requests_wait_for_a_process_in_a_list_that_can_be_ordered() -> None:
    processes = LaxBoundedSemaphore(1)
    c = SimpleNamespace(controller=SimpleNamespace(semaphore=processes))
    began: list[str] = []
    for name in "abc":
        processes.acquire(began.append, name)
    waiting = celery_internals.requests_for_pool(c)
    assert [args[0] for _, args, *_ in waiting] == ["b", "c"]
    waiting.insert(0, waiting.pop())
    processes.release()
    assert began == ["a", "c"]


def test_no_request_waits_where_the_pool_has_a_queue_of_its_own() -> None:
    c = SimpleNamespace(controller=SimpleNamespace(semaphore=None))
    assert len(celery_internals.requests_for_pool(c)) == 0


def test_a_request_that_has_paid_for_its_rate_passes_the_others() -> None:
    went: list[str] = []
    c: Any = Consumer.__new__(Consumer)
    c._limit_move_to_pool, c._limit_order = went.append, 0
    c.timer = SimpleNamespace(call_after=lambda *_, **__: None)
    celery_internals.paces_by(c, lambda request: request == "paid")
    bucket = TokenBucket(1 / 3600, capacity=1)
    for request in ("first", "second", "paid"):
        c._limit_task(request, bucket, 1)
    assert went == ["first", "paid"]
    assert [request for request, _ in bucket.contents] == ["second"]
    assert "limit_task = consumer._limit_task" in inspect.getsource(strategy.default)


def test_celery_restores_the_prefetch_by_a_method_that_can_be_replaced() -> None:
    assert callable(celery_internals.restores_prefetch(Consumer))
    written = Path(inspect.getfile(Consumer)).read_text("utf-8")
    assert "_maximum_prefetch_restored = " in written


def test_the_full_prefetch_is_restored_once() -> None:
    qos = QoS(print, 2)
    names = {"initial_prefetch_count": 2, "max_prefetch_count": 8}
    c = SimpleNamespace(qos=qos, **names, _maximum_prefetch_restored=False)
    for _ in range(2):
        celery_internals.restore_prefetch_now(c)
    assert (qos.value, c.initial_prefetch_count) == (8, 8)


@pytest.mark.parametrize(
    ("uses_semaphore", "size"), [(True, 4), (False, 2)], ids=["prefork", "other pools"]
)
def test_a_pool_has_a_size(*, uses_semaphore: bool, size: int) -> None:
    """Prefork's limit is the one it began with; the number of gevent's processes was that of its tasks."""
    pool = SimpleNamespace(uses_semaphore=uses_semaphore, num_processes=4, limit=2)
    assert celery_internals.pool_size(pool) == size


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
def test_each_pool_tells_its_size(pool: str) -> None:
    has = dir(get_implementation(pool)(2))
    assert {"uses_semaphore", "num_processes", "limit"} <= set(has)


def test_a_pool_that_is_gone_has_no_size() -> None:
    assert celery_internals.pool_size(None) == celery_internals.pool_size(TaskPool(2)) == 0


def test_a_consumer_knows_its_tags() -> None:
    with Connection("memory://") as connection:
        consumer = connection.Consumer([Queue("work")])
        consumer.consume()
        assert list(celery_internals.tags_by_queue(consumer)) == ["work"]


def test_a_channel_of_redis_has_what_is_read_and_forgotten() -> None:
    assert hasattr(Channel, "_brpop_read")
    channel = SimpleNamespace(_in_poll="a connection", _brpop_read=lambda: None)
    assert celery_internals.unanswered_connection(channel) == "a connection"
    celery_internals.forget_answer(channel)
    assert celery_internals.unanswered_connection(channel) is None
    assert Channel._in_poll is False, "kombu names it still"


def test_a_virtual_channel_tells_where_a_message_belongs() -> None:
    with Connection("memory://") as connection:
        channel = connection.default_channel
        Queue("work", Exchange("orders", "direct"), routing_key="new")(channel).declare()
        assert list(celery_internals.queues_of(channel, "orders", "new")) == ["work"]


@pytest.mark.parametrize(
    ("priority", "name"), [(0, "work"), (3, "work\x06\x163"), (9, "work\x06\x169")]
)
def test_redis_has_a_list_for_each_priority(priority: int, name: str) -> None:
    channel = object.__new__(Channel)
    found = celery_internals.list_of(channel, "work", {"properties": {"priority": priority}})
    assert found == name


def test_an_app_is_found_behind_its_proxy() -> None:
    before, app = celery_internals.app_behind_proxy(), Celery("behind", set_as_current=False)
    app.set_current()
    try:
        assert celery_internals.app_behind_proxy() is app
    finally:
        before.set_current()


def test_no_other_module_touches_private_parts_of_others() -> None:
    """Ruff's SLF001 finds the attributes, with noqa for our own; this finds the imports."""
    for path in LIBRARY.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [*(node.module or "").split("."), *(each.name for each in node.names)]
                private = [n for n in names if n.startswith("_") and n != "__future__"]
                assert not private or path == HERE, (path, private)


def test_a_channel_of_redis_names_the_key_of_unacknowledged_messages(valkey: ValkeyServer) -> None:
    with Connection(valkey.url) as connection, connection.channel() as channel:
        assert celery_internals.unacknowledged_on_redis(channel) == 0
        channel.client.hset(channel.unacked_key, "tag", "message")
        assert celery_internals.unacknowledged_on_redis(channel) == 1
    with Connection("memory://") as connection, connection.channel() as channel:
        assert celery_internals.unacknowledged_on_redis(channel) == 0


def test_the_timer_has_the_requests_that_wait_for_their_eta(app: Celery) -> None:
    task = limited(app)
    request = Request(message_of(task), app=app, task=task)
    timer = Timer()
    timer.call_at(3600.0, print, (request,))
    timer.call_after(3600.0, print)
    c = SimpleNamespace(timer=SimpleNamespace(schedule=timer))
    assert list(celery_internals.scheduled_requests(c)) == [request]
