"""Queues of other kinds: a waiting message goes back to the one it came from, and to no other."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from kombu import Exchange, Queue

from tests.support.process import wait_until
from tests.support.variants import also

from ..conftest import Site

QUORUM = {"task_default_queue_type": "quorum", "task_default_exchange_type": "topic"}
PUBLISHED = {"semaphore_keep": False}
DIRECT = QUORUM | {"task_default_exchange_type": "direct"}


def waits(shortest: float, longest: float) -> dict[str, float]:
    return {"semaphore_requeue_delay": shortest, "semaphore_requeue_max_delay": longest}


@pytest.fixture
def quorum_site(rabbit_site: Site) -> Site:
    rabbit_site.client.conf.update(QUORUM)
    return rabbit_site


@pytest.mark.rabbitmq
@pytest.mark.parametrize(
    ("name", "conf"), [("call", QUORUM), ("call_late", QUORUM), *also(("call", DIRECT))]
)
def test_quorum_queues(rabbit_site: Site, name: str, conf: dict[str, str]) -> None:
    rabbit_site.client.conf.update(conf)
    for worker in ("a", "b"):
        rabbit_site.start(name=worker, concurrency=4, conf=conf | waits(0.3, 4))
    results = [rabbit_site.send(name, 0.5, "api") for _ in range(60)]
    wait_until(lambda: all(r.ready() for r in results), 100, "all are done")
    stats = rabbit_site.counter.stats("api")
    assert 1 < stats["max_inside"] <= 5
    assert [stats["tasks"][result.id]["entries"] for result in results] == [1] * 60


@pytest.mark.rabbitmq
@pytest.mark.parametrize("conf", [QUORUM, DIRECT], ids=["topic", "direct"])
def test_waiting_tasks_do_not_fill_a_fixed_prefetch(
    rabbit_site: Site, conf: dict[str, str]
) -> None:
    rabbit_site.client.conf.update(conf)
    worker = rabbit_site.start(concurrency=2, conf=conf | waits(60, 60))
    rabbit_site.occupy()
    for _ in range(20):
        rabbit_site.send("hold", 0.0, "w")
    wait_until(lambda: worker.log().count("] waits ") == 20, 15, "all of them wait")
    rabbit_site.send("free").get(timeout=10)
    assert rabbit_site.inside("held") == 1


@pytest.mark.rabbitmq
def test_a_delay_is_kept_by_the_broker_again_and_again(quorum_site: Site) -> None:
    """RabbitMQ drops what seems to go in circles through its delays."""
    worker = quorum_site.start(concurrency=4, conf=QUORUM | PUBLISHED | waits(3.2, 3.4))
    alike = [uuid4().hex for _ in "12"]
    at_once = look(quorum_site, alike[0])
    quorum_site.send("hold", 8.0, "held")
    wait_until(lambda: quorum_site.inside("held") == 1, 20, "the permit is taken")
    waited = look(quorum_site, alike[1])
    assert worker.log().count(f"look[{alike[1]}] waits about 3.2") >= 2
    assert without_route(waited, alike[1]) == without_route(at_once, alike[0])


def look(site: Site, task_id: str) -> dict[str, Any]:
    result = site.send("look", 1, kwargs={"b": [2]}, task_id=task_id, headers={"mine": "1"})
    found: dict[str, Any] = result.get(timeout=30)
    return found


def without_route(seen: dict[str, Any], own: str) -> str:
    """All but how it came: a delay that the broker keeps has exchanges and keys of its own."""
    kept = {k: v for k, v in seen.items() if k not in ("delivery_info", "properties")}
    return repr(sorted(kept.items())).replace(own, "<id>")


def bind(site: Site, queues: list[str], kind: str, arguments: dict[str, Any]) -> None:
    """Each queue gets a copy of what is published to the exchange."""
    with site.client.connection_for_write() as connection:
        for name in queues:
            exchange = Exchange("orders", kind)
            queue = Queue(name, exchange, routing_key=KEYS[kind], queue_arguments=arguments)
            queue.bind(connection.default_channel).declare()


KEYS = {"topic": "order.#", "direct": "order.new"}
KINDS: dict[str, dict[str, str]] = {
    "topic": {},
    "direct": {},
    "topic, quorum": {"x-queue-type": "quorum"},
}


@pytest.mark.parametrize(
    ("broker", "kind"),
    [
        pytest.param(broker, kind, marks=pytest.mark.rabbitmq if broker == "rabbit_site" else [])
        for broker, kinds in {"site": ["topic", "direct"], "rabbit_site": [*KINDS]}.items()
        for kind in kinds
    ],
)
def test_goes_back_to_its_own_queue_only(
    broker: str, kind: str, request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    exchange = kind.partition(",")[0]
    bind(site, ["first", "second"], exchange, KINDS[kind])
    env = {"QUEUES": json.dumps([["first", "orders", exchange, KEYS[exchange], KINDS[kind]]])}
    worker = site.start(
        concurrency=4, queues=["first"], env=env, conf=waits(1.2, 1.4) | {"semaphore_keep": False}
    )
    orders: dict[str, Any] = {"declare": [Exchange("orders", exchange)], "exchange": "orders"}
    site.occupy(routing_key="order.new", **orders)
    result = site.send("look", routing_key="order.new", **orders)
    said = f"look[{result.id}] waits"
    wait_until(lambda: worker.log().count(said) >= 3, 20, "it went back three times")
    site.let_go()
    result.get(timeout=30)
    with site.client.connection_for_write() as connection:
        queue = Queue("second").bind(connection.default_channel)
        copies = [message for _ in range(9) if (message := queue.get(no_ack=True))]
    assert len(copies) == 2, "one for each publication of ours, none for a wait"


def test_a_message_without_a_way_back_does_not_go_in_circles(site: Site) -> None:
    """It came by a binding that the worker does not know; it stays with the broker, and runs at last."""
    bind(site, ["first"], "topic", {})
    elsewhere = Queue("first", Exchange("orders", "topic"), routing_key="user.#")
    with site.client.connection_for_write() as connection:
        elsewhere.bind(connection.default_channel).declare()
    env = {"QUEUES": json.dumps([["first", "orders", "topic", "order.#", {}]])}
    conf = {"semaphore_publish_timeout": 1.0, "semaphore_keep": False}
    worker = site.start(concurrency=4, queues=["first"], env=env, conf=conf)
    users = {"declare": [Exchange("orders", "topic")], "exchange": "orders"}
    site.send("hold", 8.0, "held", routing_key="user.new", **users)
    wait_until(lambda: site.inside("held") == 1, 20, "the permit is taken")
    result = site.send("look", routing_key="user.new", **users)
    result.get(timeout=30)
    assert "no queue of this worker is bound to exchange 'orders'" in worker.log()
    assert 3 <= worker.log().count(f"look[{result.id}] received") <= 10
