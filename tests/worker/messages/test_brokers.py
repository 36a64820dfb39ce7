"""Several brokers: one to read from and one to write to, or one after the other; and brokers that take nothing."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core.permit import Permit
from celery_semaphore.worker.messages.publisher import Publisher
from tests.support.process import free_port, wait_until
from tests.support.proxy import Proxy
from tests.support.rabbit import Rabbit
from tests.support.servers import ValkeyServer
from tests.support.variants import also

from ..brokers import BOTH
from ..conftest import Site
from .test_parking import ONE, PARK, done, ran_once
from .test_waiting import published

PUBLISHED: dict[str, Any] = {"semaphore_keep": False}
EITHER_WAY = pytest.mark.parametrize("conf", [PUBLISHED, PARK], ids=["requeue", "park"])


def another(broker: str, request: pytest.FixtureRequest) -> str:
    """A broker of the same kind, to which no worker listens."""
    if broker == "site":
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        return valkey.database(7)
    rabbit: Rabbit = request.getfixturevalue("rabbitmq_server")
    return rabbit.virtual_host()


def wait_and_run(count: int, site: Site, conf: dict[str, Any], brokers: dict[str, str]) -> None:
    """So many tasks wait in the way of `conf` with these brokers, and run once."""
    site.start(concurrency=2, conf=conf | brokers)
    held = site.occupy()
    results = [site.send("hold", 0.0, "w") for _ in range(count)]
    wait_until(lambda: site.waiting() == count, 20, "they wait")
    site.let_go()
    done([*held, *results], 20)
    ran_once(site, "w", results, 1, parked=conf is PARK)


@EITHER_WAY
@pytest.mark.parametrize("broker", BOTH)
def test_what_waits_stays_with_the_broker_that_workers_read(
    broker: str, conf: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    two = {"broker_read_url": site.broker, "broker_write_url": another(broker, request)}
    wait_and_run(5, site, conf, two)


# -- several URLs of one broker


def at_port(url: str, port: int) -> str:
    return re.sub(r":\d+/", f":{port}/", url)


@EITHER_WAY
@pytest.mark.parametrize("broker", BOTH)
def test_the_first_two_of_three_urls_are_down(
    broker: str, conf: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    down = [at_port(site.broker, free_port()) for _ in range(2)]
    wait_and_run(3, site, conf, {"broker_url": ";".join([*down, site.broker])})


def publisher_to(*ports: int, timeout: float = 5.0) -> Publisher:
    urls = ";".join(f"redis://127.0.0.1:{port}/0" for port in ports)
    app = Celery("several", broker=urls, set_as_current=False)
    return Publisher(app, timeout)


def test_the_url_that_worked_is_tried_first(
    valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """Each attempt at one that is down may take as long as its time-out."""
    first = start_proxy(valkey.port)
    first.cut()
    publisher = publisher_to(first.port, free_port(), valkey.port)
    assert published(publisher)
    first.restore()
    publisher.disconnect()
    assert published(publisher)
    assert first.requests == 0
    publisher.disconnect()


def test_a_url_that_hangs_does_not_keep_from_the_next(
    valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """It uses the time of a whole attempt; so the next attempt begins with the next one."""
    proxies = [start_proxy(valkey.port) for _ in range(2)]
    for proxy in proxies:
        proxy.hang()
    publisher = publisher_to(*(proxy.port for proxy in proxies), valkey.port, timeout=0.2)
    wait_until(lambda: published(publisher), 15, "the third is reached")
    publisher.disconnect()


def test_an_outage_is_said_once(
    valkey: ValkeyServer, start_proxy: Callable[[int], Proxy], caplog: pytest.LogCaptureFixture
) -> None:
    proxy = start_proxy(valkey.port)
    publisher = publisher_to(proxy.port)
    proxy.cut()
    with caplog.at_level(logging.INFO, "celery_semaphore"):
        for _ in range(3):
            publisher._breaker.succeeded()
            publisher._breaker._until = 0.0
            assert not published(publisher)
        proxy.restore()
        wait_until(lambda: published(publisher), 10, "it is asked again")
        assert published(publisher)
    said = [each.message.partition(":")[0] for each in caplog.records]
    assert said == [
        "waiting tasks stay here until the broker can be reached",
        "the broker can be reached, waiting tasks go back",
    ]
    publisher.disconnect()


# -- a broker that delivers and takes nothing


def cut_off(
    site: Site,
    start_proxy: Callable[[int], Proxy],
    timeout: float,
    env: dict[str, str] | None = None,
    **options: Any,
) -> tuple[Any, Proxy]:
    """A worker that gets its tasks as always, and cannot publish."""
    port = int(re.search(r":(\d+)/", site.broker)[1])  # type: ignore[index]
    proxy = start_proxy(port)
    env = {"PUBLISH_BY": at_port(site.broker, proxy.port)} | (env or {})
    conf = {"semaphore_publish_timeout": timeout, "semaphore_keep": False}
    worker = site.start(concurrency=2, env=env, conf=conf, **options)
    proxy.cut()
    return worker, proxy


@pytest.mark.rabbitmq
def test_what_cannot_be_put_back_stays_in_hand(
    rabbit_site: Site, start_proxy: Callable[[int], Proxy]
) -> None:
    """Given back to the broker again and again it would be dropped: a quorum queue counts deliveries."""
    site = rabbit_site
    site.lease = 60.0
    few = ["few", "few", "direct", "few", {"x-queue-type": "quorum", "x-delivery-limit": 1}]
    queues = {"QUEUES": json.dumps([["celery", "celery", "direct", "celery", {}], few])}
    worker, proxy = cut_off(site, start_proxy, 0.3, env=queues)
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    result = site.send("hold", 0.0, "w", exchange="few", routing_key="few")
    wait_until(lambda: "waiting tasks stay here" in worker.log(), 20, "it cannot be put back")
    # Long enough for two deliveries more: one would be the last.
    site.send("free", 6.0).get(timeout=20)
    assert worker.log().count(f"hold[{result.id}] received") == 1
    store.release("outside", [ONE])
    proxy.restore()
    done([result])
    assert worker.log().count("waiting tasks stay here") == 1
    store.close()


@pytest.mark.rabbitmq
def test_a_shutdown_puts_each_message_back_into_its_own_queue(
    rabbit_site: Site, start_proxy: Callable[[int], Proxy], rabbitmq_server: Rabbit
) -> None:
    """Two queues have a copy each, and the worker has cancelled its consumers when the broker can be reached."""
    site, queues = rabbit_site, {"all": "#", "orders": "orders.*"}
    site.lease = 60.0
    named = [["celery", "celery", "direct", "celery", {}]]
    named += [[name, "events", "topic", key, {}] for name, key in queues.items()]
    env = {"QUEUES": json.dumps(named)}
    worker, proxy = cut_off(site, start_proxy, 8.0, env=env, options=["--loglevel", "DEBUG"])
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    site.send(
        "early", "success", "w", exchange="events", exchange_type="topic", routing_key="orders.1"
    )
    wait_until(lambda: worker.log().count("] waits") == 2, 20, "they wait")
    worker.warm()
    stopping = "Stopping SemaphoreConsumerStep"
    worker.wait_until(lambda: stopping in worker.log(), 10, "it consumes no more")
    proxy.restore()
    worker.wait(20)
    store.close()
    counts = rabbitmq_server.messages(site.broker)
    assert {name: counts[name] for name in queues} == dict.fromkeys(queues, 1)


@pytest.mark.parametrize("how", ["cold", *also("warm")])
@pytest.mark.parametrize("broker", BOTH)
def test_a_shutdown_with_a_message_in_hand(
    broker: str, how: str, start_proxy: Callable[[int], Proxy], request: pytest.FixtureRequest
) -> None:
    """It is left unacknowledged, and the broker delivers it again."""
    site: Site = request.getfixturevalue(broker)
    site.lease = 60.0
    worker, _ = cut_off(site, start_proxy, 1.0)
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    results = [site.send("early", "success", "w") for _ in range(3)]
    wait_until(lambda: worker.log().count("] waits") == 3, 20, "they wait")
    # What its processes report at a shutdown Celery may forget, and each then waits half a minute for a reader.
    worker.wait_until_running(site.client, 0)
    getattr(worker, how)()
    worker.wait(20)
    store.release("outside", [ONE])
    store.close()
    site.start(name="heir", concurrency=2)
    done(results)
    stats = site.counter.stats("w")
    assert [stats["tasks"][result.id]["entries"] for result in results] == [1, 1, 1]
