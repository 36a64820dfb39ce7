"""What RabbitMQ is told of a granted queue: its arguments follow from those of its queue."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kombu import Exchange, Queue

from celery_semaphore.worker.messages.broker import name_of_broker
from celery_semaphore.worker.messages.consumed_queues import of_broker
from celery_semaphore.worker.messages.granted_queue import LEFT_FOR_S, queue_beside
from tests.support.process import wait_until
from tests.support.rabbit import Rabbit

from ..conftest import Site
from ..messages.test_parking import PARK, all_parked, done, ran_once
from ..messages.test_parking_queues import routes

DEAD, KEY = "x-dead-letter-exchange", "x-dead-letter-routing-key"
PATIENT = PARK | {"semaphore_take_up": 60}


def declares(
    site: Site, arguments: dict[str, Any], kind: str = "direct", key: str = "celery"
) -> dict[str, str]:
    """Let the clients of the site declare the queue so; return the environment of a worker that does."""
    exchange = Exchange("tasks", kind)
    site.client.conf.task_queues = [
        Queue("celery", exchange, routing_key=key, queue_arguments=arguments)
    ]
    site.client.amqp.__dict__.pop("queues", None)
    return {"QUEUES": json.dumps([["celery", "tasks", kind, key, arguments]])}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, {}),
        (
            dict.fromkeys(["x-max-length", "x-max-length-bytes", "x-message-ttl", "x-expires"], 9),
            {},
        ),
        ({"x-single-active-consumer": True}, {}),
        *[
            (kept, kept)
            for kept in (
                {"x-queue-type": "quorum", "x-delivery-limit": 3, "x-overflow": "reject-publish"},
                {"x-max-priority": 10, "x-queue-mode": "lazy"},
                {"x-consumer-timeout": 7_200_000},
                {DEAD: "dlx", KEY: "their own"},
                {KEY: "without an exchange"},
            )
        ],
        ({DEAD: "dlx"}, {DEAD: "dlx", KEY: "celery"}),
        ({DEAD: ""}, {DEAD: "", KEY: "celery"}),
    ],
)
def test_it_has_the_arguments_that_drop_nothing(
    arguments: dict[str, Any], expected: dict[str, Any]
) -> None:
    home: Any = Queue("celery", Exchange("tasks"), "key", queue_arguments=arguments, expires=9.0)
    before = dict(arguments)
    beside: Any = queue_beside(home)
    assert beside.name == "celery.granted"
    assert beside.queue_arguments == expected
    assert beside.expires is None
    assert home.queue_arguments == before


def test_it_is_not_deleted_while_its_worker_ceases_to_consume_it() -> None:
    """A worker that returns granted messages cancels its consumer first, and they are in no other place."""
    beside: Any = queue_beside(Queue("celery", auto_delete=True))
    assert not beside.auto_delete
    assert beside.expires == LEFT_FOR_S


@pytest.mark.rabbitmq
@pytest.mark.parametrize("conf", [{}, PARK], ids=["requeue", "park"])
@pytest.mark.parametrize(
    ("kind", "key", "letters"), [("direct", "work", "celery"), ("topic", "work.*", "work.*")]
)
def test_dead_letters_arrive(
    rabbit_site: Site, conf: dict[str, Any], kind: str, key: str, letters: str
) -> None:
    """They go by the key with which Celery sends; a task that was parked dies like any other."""
    site = rabbit_site
    with site.client.connection_for_write() as connection:
        channel = connection.default_channel
        dead = Queue("dead", Exchange("dlx", "direct"), letters)(channel)
        dead.declare()
        env = declares(site, {DEAD: "dlx"}, kind, key)
        site.start(concurrency=2, conf=conf, env=env)
        held = site.occupy()
        results = [site.send("late", "reject", "w") for _ in range(5)]
        wait_until(lambda: site.waiting() == 5, 20, "they wait")
        site.let_go()
        done(held)
        count = lambda: dead.queue_declare(passive=True).message_count  # noqa: E731
        wait_until(lambda: count() == 5, 20, "all are dead letters")
        assert {dead.get().headers["id"] for _ in results} == {result.id for result in results}


@pytest.mark.rabbitmq
def test_a_bounded_queue_drops_no_granted_task(rabbit_site: Site) -> None:
    """Each waited safely in the store, which forgets a message once it was sent."""
    site = rabbit_site
    env = declares(site, {"x-max-length": 3})
    site.start(concurrency=1, conf=PATIENT, env=env)
    store = site.store()
    store.set_limit(0, "one")
    results = []
    for _ in range(12):  # its own queue may drop them, too
        results.append(site.send("hold", 0.0, "w"))
        wait_until(lambda: site.waiting() == len(results), 20, "it is parked")
    site.occupy(task="stay", resource="work")
    store.set_limit(20, "one")
    wait_until(lambda: site.waiting() == 0, 20, "all were granted")
    site.let_go("work")
    done(results, 20)
    ran_once(site, "w", results, 20)
    store.close()


@pytest.mark.rabbitmq
def test_the_arguments_of_its_queue_were_changed(
    rabbit_site: Site, rabbitmq_server: Rabbit, tmp_path: Path
) -> None:
    """The user deletes the queue, of whose granted queue he does not know: the worker starts, and says what to do."""
    site, host = rabbit_site, rabbit_site.broker.rpartition("/")[2]
    site.lease = 60.0
    store = site.store()
    store.set_limit(0, "one")
    before = site.start(name="before", concurrency=1, conf=PARK, env=declares(site, {}))
    parked = [site.send("hold", 0.0, "w") for _ in range(3)]
    # In line is not enough: a message that the store does not have yet would go with the queue that is deleted.
    waiters = lambda: store.snapshot("one").waiters  # noqa: E731
    wait_until(lambda: [each.reachable for each in waiters()] == 3 * [True], 20, "they are parked")
    before.warm()
    before.wait(20)
    rabbitmq_server.control("delete_queue", "-p", host, "celery")
    env = declares(site, {"x-max-priority": 10}) | {"LOG_MESSAGES": str(tmp_path / "messages")}
    after = site.start(name="after", concurrency=1, conf=PARK, env=env)
    (line,) = [line for line in after.log().splitlines() if "no granted queue" in line]
    assert "WARNING" in line
    assert "PRECONDITION_FAILED" in line
    assert "x-max-priority" in line
    advice = f"rabbitmqctl delete_queue --if-empty -p {host} celery.granted"
    assert f"`{advice}`" in line
    assert "rights" not in line
    store.set_limit(None, "one")
    done(parked, 20)
    ran_once(site, "w", parked, 1)
    after.warm()
    after.wait(20)
    rabbitmq_server.control(*advice.split()[1:])
    last = site.start(name="last", concurrency=2, conf=PARK, env=env)
    held = site.occupy()
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    site.let_go()
    done([*held, result], 20)
    assert routes(tmp_path / "messages", result.id) == ["celery", "celery.granted"]
    assert "no granted queue" not in last.log()
    store.close()


@pytest.mark.rabbitmq
def test_a_queue_with_arguments_that_its_sender_does_not_know(
    rabbit_site: Site, rabbitmq_server: Rabbit, request: pytest.FixtureRequest
) -> None:
    """Its granted queue is gone with its worker: what is granted goes to the queue as it is, by an app without it."""
    site, host = rabbit_site, rabbit_site.broker.rpartition("/")[2]
    site.lease = 60.0
    store = site.store()
    store.set_limit(0, "one")
    env = declares(site, {"x-max-priority": 10})
    parker = site.start(name="parker", concurrency=1, conf=PARK, env=env)
    parked = [site.send("hold", 0.0, "w") for _ in range(3)]
    all_parked(site, request, 3)
    parker.warm()
    parker.wait(20)
    broker = name_of_broker(site.client)
    store.consume("killed", [of_broker(broker, "celery.granted")])
    rabbitmq_server.control("delete_queue", "-p", host, "celery.granted")
    other = site.start(name="other", concurrency=1, queues=["other"], conf=PARK)
    store.set_limit(None, "one")
    with site.client.connection_for_read() as connection:
        home = Queue("celery")(connection.default_channel)
        count = lambda: home.queue_declare(passive=True).message_count  # noqa: E731
        wait_until(lambda: count() == 1, 20, "the first was sent")
    assert site.waiting() == 2  # not three: it has its permit
    site.start(name="heir", concurrency=1, conf=PARK, env=env)
    done(parked, 20)
    ran_once(site, "w", parked, 1)
    assert "PreconditionFailed" not in other.log()
    assert "no worker consumes" not in other.log()  # else it would come without its permit
    store.close()
