"""Messages that are given back to the broker: each once, and the first one first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu import Connection, Consumer, Exchange, Queue
from redis import Redis
from redis.exceptions import ResponseError

from celery_semaphore.worker.keeping.kept_message import KeptMessage
from celery_semaphore.worker.keeping.prefetch import QueueLengths
from celery_semaphore.worker.keeping.redelivery import (
    AmqpRedelivery,
    QuorumRedelivery,
    redelivery_of,
)
from celery_semaphore.worker.keeping.redis_redelivery import RedisRedelivery
from tests.support.servers import ValkeyServer

PREFIX: dict[str, Any] = {"global_keyprefix": "ours:"}
TASKS = Queue("tasks")


@contextmanager
def received(
    url: str, bodies: list[Any], queue: Queue = TASKS, **options: Any
) -> Iterator[tuple[Any, list[Any]]]:
    """A channel and its unacknowledged messages, as a worker has them."""
    with Connection(url, transport_options=options) as connection:
        channel = connection.channel()
        queue = queue(channel)
        queue.declare()
        producer = connection.Producer()
        for body in bodies:
            priority = body.get("priority", 0) if isinstance(body, dict) else 0
            way = {"exchange": queue.exchange, "routing_key": queue.routing_key or queue.name}
            producer.publish(body, priority=priority, headers={"empty": []}, **way)
        messages: list[Any] = []
        consumer = Consumer(channel, [queue], on_message=messages.append)
        channel.basic_qos(0, 0, False)
        consumer.consume()
        while len(messages) < len(bodies):
            connection.drain_events(timeout=5)
        consumer.cancel()
        yield channel, messages


def waiting(messages: list[Any]) -> list[KeptMessage]:
    return [KeptMessage(SimpleNamespace(message=each), None, 0.0, 0.0, 0.0) for each in messages]


def drained(url: str, count: int, queue: str = "tasks", **options: Any) -> list[Any]:
    """So many messages in the order in which another worker gets them, and no more."""
    with Connection(url, transport_options=options) as connection:
        bound = Queue(queue)(connection.channel())
        found = [bound.get(no_ack=True) for _ in range(count + 1)]
    assert found.pop() is None
    return found


@pytest.mark.parametrize("options", [{}, PREFIX], ids=["", "with a key prefix"])
def test_redis_delivers_the_first_one_first(valkey: ValkeyServer, options: dict[str, Any]) -> None:
    """Of three calls; before what waits in the queue; and nothing is left to be restored."""
    bodies = list(range(450))
    with received(valkey.url, bodies, **options) as (_, messages):
        with Connection(valkey.url, transport_options=options) as other:
            other.Producer().publish("behind", routing_key="tasks")
        RedisRedelivery().give_back(waiting(messages))
        prefix = options.get("global_keyprefix", "")
        with valkey.client() as client:
            assert not client.exists(prefix + "unacked", prefix + "unacked_index")
    found = drained(valkey.url, 451, **options)
    assert [each.payload for each in found] == [*bodies, "behind"]
    assert {each.delivery_info.get("redelivered") for each in found[:-1]} == {True}
    assert found[0].headers == {"empty": [], "redelivered": True}, "as it came, but for this"


def test_they_count_against_no_prefetch(valkey: ValkeyServer) -> None:
    with received(valkey.url, [1, 2, 3]) as (channel, messages):
        channel.basic_qos(0, 3, False)
        assert not channel.qos.can_consume()
        channel.qos.restore_by_tag(messages[0].delivery_tag)
        RedisRedelivery().give_back(waiting(messages))
        assert channel.qos.can_consume()
        assert channel.qos._delivered.keys() == channel.qos._dirty, (
            "not even one restored elsewhere"
        )


def test_redis_keeps_priorities(valkey: ValkeyServer) -> None:
    bodies = [{"n": n, "priority": 9 * (n % 2)} for n in range(6)]
    with received(valkey.url, bodies) as (_, messages):
        RedisRedelivery().give_back(waiting(sorted(messages, key=lambda each: each.payload["n"])))
    assert [each.payload["n"] for each in drained(valkey.url, 6)] == [0, 2, 4, 1, 3, 5]


def test_what_was_restored_meanwhile_is_not_copied(
    valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another worker, after the visibility timeout: before this one looks, or right after."""
    read = Redis.hmget
    with received(valkey.url, [1, 2, 3]) as (channel, messages):
        channel.qos.restore_by_tag(messages[0].delivery_tag)

        def then_restored(*args: Any) -> Any:
            found = read(*args)
            channel.qos.restore_by_tag(messages[1].delivery_tag)
            return found

        monkeypatch.setattr(Redis, "hmget", then_restored)
        RedisRedelivery().give_back(waiting(messages))
    assert sorted(each.payload for each in drained(valkey.url, 3)) == [1, 2, 3]


def test_a_message_whose_queue_is_gone_holds_up_no_other(valkey: ValkeyServer) -> None:
    """It stays unacknowledged, and Redis delivers it again when its visibility timeout is over."""
    orders = Queue("orders", Exchange("orders", "topic"), routing_key="order.#")
    with received(valkey.url, [1], orders) as (channel, unbound), valkey.client() as client:
        client.delete("_kombu.binding.orders")
        tasks = TASKS(channel)
        tasks.declare()
        with Connection(valkey.url) as other:
            other.Producer().publish(2, routing_key="tasks")
        bound = tasks.get()
        RedisRedelivery().give_back(waiting([*unbound, bound]))
        assert client.hkeys("unacked") == [unbound[0].delivery_tag.encode()]
        assert list(channel.qos._delivered.keys() - channel.qos._dirty) == [unbound[0].delivery_tag]
        client.sadd("_kombu.binding.orders", "order.#\x06\x16\x06\x16orders")
    assert [each.payload for each in drained(valkey.url, 1)] == [2]


def test_a_full_redis_loses_none(valkey: ValkeyServer) -> None:
    """It refuses the write that a message needs: what was to be restored stays unacknowledged."""
    with received(valkey.url, list(range(5))) as (_, messages), valkey.client() as client:
        client.config_set("maxmemory", 1)
        try:
            with pytest.raises(ResponseError, match="maxmemory"):
                RedisRedelivery().give_back(waiting(messages))
            assert client.hlen("unacked") == 5
        finally:
            client.config_set("maxmemory", 0)
        RedisRedelivery().give_back(waiting(messages))
    assert [each.payload for each in drained(valkey.url, 5)] == list(range(5))


@pytest.mark.parametrize(("queues", "takes"), [(["tasks"], True), (["tasks", "audit"], False)])
def test_redis_takes_what_belongs_into_one_queue(
    valkey: ValkeyServer, queues: list[str], takes: bool
) -> None:
    """kombu restores a message through its exchange: each queue that is bound would get a copy."""
    orders = Exchange("orders", "topic")
    with Connection(valkey.url) as connection:
        for name in queues:
            Queue(name, orders, routing_key="order.#")(connection.default_channel).declare()
    queue = Queue("tasks", orders, routing_key="order.#")
    with received(valkey.url, [1], queue) as (_, messages):
        assert RedisRedelivery().takes(messages[0]) is takes


def test_redis_remembers_what_leads_to_several_queues(valkey: ValkeyServer) -> None:
    """So that no session asks for the next one, which is not kept either."""
    orders = Exchange("orders", "topic")
    with Connection(valkey.url) as connection:
        Queue("other", orders, routing_key="order.#")(connection.default_channel).declare()
    with received(valkey.url, [1], Queue("tasks", orders, routing_key="order.#")) as (_, messages):
        redelivery = RedisRedelivery()
        assert redelivery.may_take(messages[0])
        assert not redelivery.takes(messages[0])
        assert not redelivery.may_take(messages[0])


def test_without_acknowledgements_redis_takes_nothing(valkey: ValkeyServer) -> None:
    with received(valkey.url, [1], ack_emulation=False) as (_, messages):
        assert not RedisRedelivery().takes(messages[0])


@pytest.mark.rabbitmq
def test_rabbitmq_delivers_the_first_one_first(rabbitmq_url: str) -> None:
    with received(rabbitmq_url, list(range(50))) as (_, messages):
        redelivery = AmqpRedelivery((), put_back, QueueLengths())
        assert redelivery.takes(messages[0])
        redelivery.give_back(waiting(messages))
    assert [each.payload for each in drained(rabbitmq_url, 50)] == list(range(50))


def consumer(driver: str, **conf: Any) -> Any:
    app = Celery("redelivery", broker="memory://", set_as_current=False)
    app.conf.update(conf)
    transport = SimpleNamespace(driver_type=driver)
    return SimpleNamespace(
        app=app,
        connection=SimpleNamespace(transport=transport),
        connection_errors=(),
        hub=object(),
        initial_prefetch_count=8,
    )


def put_back(*_: Any) -> None: ...


@pytest.mark.parametrize(
    ("driver", "conf", "kind"),
    [
        ("redis", {}, RedisRedelivery),
        ("amqp", {}, AmqpRedelivery),
        ("amqp", {"task_default_queue_type": "quorum"}, QuorumRedelivery),
        ("sqs", {}, type(None)),
    ],
)
def test_brokers(driver: str, conf: dict[str, Any], kind: Callable[..., Any]) -> None:
    assert isinstance(redelivery_of(consumer(driver, **conf), put_back), kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(("prefetch", "window"), [(8, 4), (3, 1), (1, 0), (0, 10_000)])
def test_half_of_the_prefetch_of_a_quorum_queue_is_kept(prefetch: int, window: int) -> None:
    """It cannot be raised; 0 stands for no bound."""
    assert QuorumRedelivery(prefetch, put_back).window == window
    assert AmqpRedelivery((), put_back, QueueLengths()).window is RedisRedelivery().window is None
