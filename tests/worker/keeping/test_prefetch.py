"""A lost connection to the broker, while a worker keeps waiting tasks and asks for more."""

from __future__ import annotations

import re
from collections.abc import Callable

import celery
import pytest

from celery_semaphore.core.permit import Permit
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

from ..conftest import Site
from ..messages.test_brokers import at_port
from ..messages.test_parking import ONE, PARK, messages
from .test_kept import prefetch
from .test_unread import blocked

# A BRPOP waits for so long: none ends by itself between the test's look and the loss.
LONG = {"broker_transport_options": {"polling_interval": 30, "visibility_timeout": 3600}}


def test_a_worker_that_keeps_waiting_tasks_connects_again(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """Waiting tasks raise the prefetch, so a BRPOP is under way beside them.

    The worker learns of the loss by another connection: the one by which it is told what to do.
    """
    site.lease = 60.0
    proxy = start_proxy(valkey.port)
    worker = site.start(
        concurrency=2,
        env={"BROKER": at_port(site.broker, proxy.port)},
        conf=LONG | {"semaphore_requeue_delay": 30.0},
    )
    # Not by a task: a worker of Celery 5.5 that runs one begins no other after the loss.
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    store.close()
    for _ in range(3):
        site.send("hold", 0.0, "w")
    with valkey.client() as client:
        wait_until(lambda: client.hlen("unacked") == 3, 20, "it keeps them until they are due")
        wait_until(lambda: blocked(client), 20, "it asks for more")
        proxy.refuse()
        before = proxy.connections
        for each in client.client_list(_type="pubsub"):
            if each["db"] == "0":
                client.client_kill_filter(_id=each["id"])
        wait_until(lambda: proxy.connections < before, 10, "it is told nothing any more")
    proxy.cut()
    gone_on = ("Cannot connect", "Unrecoverable")
    worker.wait_until(lambda: any(each in worker.log() for each in gone_on), 20, "it has noticed")
    proxy.restore()
    assert "Unrecoverable" not in worker.log()
    site.send("free").get(timeout=30)
    assert worker.running()


@pytest.mark.parametrize(
    "pool",
    [
        "prefork",
        "threads",
        pytest.param(
            "gevent",
            marks=pytest.mark.skipif(
                celery.VERSION < (5, 7),
                reason="stays at the lower prefetch, by Celery's own way as well",
            ),
        ),
    ],
)
@pytest.mark.rabbitmq
def test_the_event_loop_alone_restores_the_prefetch(
    rabbit_site: Site,
    pool: str,
    start_proxy: Callable[[int], Proxy],
    request: pytest.FixtureRequest,
) -> None:
    """What is parked is acknowledged by a thread of ours, and Celery restores the prefetch where it is acknowledged.

    That thread would wait for RabbitMQ's answer on the connection that the loop reads from.
    """
    site = rabbit_site
    site.lease = 60.0
    proxy = start_proxy(int(re.search(r":(\d+)/", site.broker)[1]))  # type: ignore[index]
    env = {"BROKER": at_port(site.broker, proxy.port), "LOG_PREFETCH": "1"}
    worker = site.start(pool=pool, concurrency=8, env=env, conf=PARK)
    before = prefetch(site, worker)
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    for _ in range(3):  # Celery begins with a lower prefetch while something runs
        site.send("call", None, "busy")
    wait_until(lambda: site.inside("busy") == 3, 20, "three run")
    # An ack that is lost brings a copy, which the worker keeps while the task runs, beside its prefetch.
    wait_until(lambda: messages(site, request) == 0, 20, "they are acknowledged")
    ready = worker.log().count("Connected to ")
    proxy.drop()
    worker.wait_until(lambda: worker.log().count("Connected to ") > ready, 30, "it is back")
    assert "Temporarily reducing the prefetch count" in worker.log()
    waiting = [site.send("hold", 0.0, "w") for _ in range(10)]
    wait_until(lambda: prefetch(site, worker) == before, 20, "the prefetch is as before")
    assert set(re.findall(r"prefetch \d+ by (.*)", worker.log())) == {"MainThread"}
    site.let_go("busy")
    store.release("outside", [ONE])
    store.close()
    for each in waiting:
        each.get(timeout=30)
