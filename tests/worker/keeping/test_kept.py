"""A waiting task's message stays with the worker that was refused, until it is granted or the worker ends."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import kombu
import pytest
import redis
from celery.result import AsyncResult

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.permit import Permit
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.rabbit import Rabbit
from tests.support.servers import ValkeyServer
from tests.support.variants import also
from tests.support.worker import CeleryWorker

from ..brokers import BOTH
from ..conftest import Site, queued, valkey_only
from ..main_process.test_events import monitoring
from ..messages.test_brokers import at_port
from ..messages.test_formats import NEWER, set_format
from ..messages.test_parking import deliveries, done
from ..messages.test_route import waits

ONE = Claim("one", None, 1)
OFTEN = waits(0.2, 0.5)
LONG = waits(60.0, 60.0)
SOFT = {"worker_soft_shutdown_timeout": 2.0}
GREEN = {"EVENTLET_NO_GREENDNS": "yes"}
COUNTERS = "rabbit_global_counters:overview()."  # of the whole node, messages received, delivered, acknowledged and so on
# The number is more than one call restores on Redis; a worker that runs nothing shuts down within the seconds.
MANY_ARE_KEPT = pytest.mark.parametrize(
    ("count", "seconds"), [(450, 30.0), pytest.param(5_000, 5.0, marks=pytest.mark.soak)]
)


@pytest.fixture(params=BOTH)
def broker(request: pytest.FixtureRequest) -> Site:
    site: Site = request.getfixturevalue(request.param)
    site.lease = 60.0
    return site


def refusals(worker: CeleryWorker, result: AsyncResult) -> int:
    return worker.log().count(f"[{result.id}] waits")


def prefetch(site: Site, worker: CeleryWorker) -> int:
    inspect = site.client.control.inspect([worker.hostname], timeout=2)
    found = wait_until(inspect.stats, 20, "the worker answers")
    return int(found[worker.hostname]["prefetch_count"])


def wait_until_kept(site: Site, worker: CeleryWorker, count: int, running: int = 0) -> None:
    """Also by the main process: what it has not read of its pool at a shutdown, Celery may forget."""
    wait_until(lambda: worker.log().count("] waits ") >= count, 60, "all are refused")
    worker.wait_until_running(site.client, running)


def ran_each_once(site: Site, resource: str, results: list[AsyncResult]) -> None:
    tasks = site.counter.stats(resource)["tasks"]
    assert {name: task["entries"] for name, task in tasks.items()} == {r.id: 1 for r in results}


@pytest.mark.parametrize("name", ["hold", "late"])
def test_it_is_received_and_refused_once(broker: Site, name: str) -> None:
    """However long it waits: it runs when it was granted."""
    args = (0.0, "w") if name == "hold" else ("success", "w")
    worker = broker.start(concurrency=2, conf=OFTEN)
    held = broker.occupy()
    before = prefetch(broker, worker)
    results = [broker.send(name, *args) for _ in range(12)]
    wait_until(lambda: all(refusals(worker, each) for each in results), 20, "all are refused")
    broker.let_go()
    done([*held, *results])
    assert deliveries(broker) == {each.id: 1 for each in [*held, *results]}
    assert [refusals(worker, each) for each in results] == [1] * 12
    ran_each_once(broker, "w", results)
    wait_until(lambda: prefetch(broker, worker) == before, 10, "the prefetch is as before")
    broker.wait_all_back(ONE, 10)


@valkey_only
@pytest.mark.parametrize("keep", [True, False])
def test_waiting_costs_the_broker_no_message(site: Site, keep: bool) -> None:
    """By the server's own statistics, while the worker asks the store for the grants; published ones cost some."""
    worker = site.start(concurrency=2, conf=OFTEN | {"semaphore_keep": keep})
    site.occupy()
    results = [site.send("hold", 0.0, "w") for _ in range(20)]
    wait_until(lambda: all(refusals(worker, each) for each in results), 20, "all are refused")
    server = redis.Redis.from_url(site.broker)

    def calls(command: str) -> int:
        return int(server.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0))

    messages, questions = calls("lpush"), calls("evalsha")
    wait_until(lambda: calls("evalsha") > questions + 20, 60, "twenty questions")
    assert (calls("lpush") == messages) is keep
    assert not keep or [refusals(worker, each) for each in results] == [1] * 20
    server.close()


@pytest.mark.soak
@pytest.mark.timeout(200)
def test_two_hundred_wait_for_a_minute(broker: Site, rabbitmq_server: Rabbit) -> None:
    """No broker moves a message meanwhile: counted by itself."""
    silent = ["--without-heartbeat"]  # of Celery's own, a message every two seconds
    worker = broker.start(concurrency=2, conf=OFTEN, options=silent)
    broker.occupy()
    results = [broker.send("hold", 0.0, "w") for _ in range(200)]
    wait_until_kept(broker, worker, 200, running=1)

    def moved() -> Any:
        if broker.broker.startswith("amqp"):
            return re.findall(r"messages_\w+ => \d+", rabbitmq_server.evaluate(COUNTERS))
        with redis.Redis.from_url(broker.broker) as server:
            calls: Any = server.info("commandstats")
            pushed = [calls.get(f"cmdstat_{end}push", {}).get("calls", 0) for end in "lr"]
            return [*pushed, *sorted(server.hkeys("unacked"))]

    wait_until(lambda: moved() == moved(), 20, "the answers of the inspection are through")
    before, end = moved(), time.monotonic() + 60
    assert len(before) > 2
    wait_until(lambda: time.monotonic() > end, 70, "a minute")
    assert moved() == before
    assert [refusals(worker, each) for each in results] == [1] * 200
    broker.let_go()
    done(results, 120)


@pytest.mark.parametrize("pool", ["threads", "gevent", *also("eventlet", "solo")])
def test_in_other_pools(broker: Site, pool: str) -> None:
    store = broker.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    worker = broker.start(pool=pool, concurrency=4, conf=OFTEN, env=GREEN)
    results = [broker.send("hold", 0.0, "w") for _ in range(4)]
    wait_until(lambda: all(refusals(worker, each) for each in results), 20, "all are refused")
    store.release("outside", [ONE])
    store.close()
    done(results)
    assert deliveries(broker) == {each.id: 1 for each in results}
    ran_each_once(broker, "w", results)


def test_it_is_kept_beside_the_prefetch(broker: Site) -> None:
    """Or the worker would receive nothing more: each of two processes may prefetch one message."""
    worker = broker.start(concurrency=2, conf=LONG | {"worker_prefetch_multiplier": 1})
    broker.occupy()
    results = [broker.send("hold", 0.0, "w") for _ in range(10)]
    wait_until(lambda: all(refusals(worker, each) for each in results), 20, "all are refused")
    wait_until(lambda: prefetch(broker, worker) == 12, 10, "each raises it by one")
    assert broker.client.control.inspect(timeout=2).reserved() == {worker.hostname: []}
    broker.send("free").get(timeout=10)


def test_where_nothing_is_prefetched(site: Site) -> None:
    """Celery then asks Redis only while a process is free: what is kept occupies none."""
    worker = site.start(concurrency=2, conf=OFTEN | {"worker_disable_prefetch": True})
    held = site.occupy()
    results = [site.send("hold", 0.0, "w") for _ in range(12)]
    wait_until(lambda: all(refusals(worker, each) for each in results), 20, "all are refused")
    site.let_go()
    done([*held, *results])
    assert deliveries(site) == {each.id: 1 for each in [*held, *results]}


def test_no_more_are_kept_beside_it_than_the_limit(broker: Site) -> None:
    """Celery's own setting bounds what a worker takes out of the queue; and the prefetch is as before at the end."""
    few = {"worker_prefetch_multiplier": 1, "worker_eta_task_limit": 5}
    worker = broker.start(concurrency=2, conf=OFTEN | few)
    held = broker.occupy()
    results = [broker.send("hold", 0.0, "w") for _ in range(12)]
    wait_until(lambda: len(deliveries(broker)) >= 6, 20, "as many as are possible are received")
    broker.let_go()
    done([*held, *results])
    ran_each_once(broker, "w", results)
    wait_until(lambda: prefetch(broker, worker) == 2, 10, "the prefetch is as before")


def test_without_keeping_it_is_published_again(broker: Site) -> None:
    worker = broker.start(concurrency=2, conf=OFTEN | {"semaphore_keep": False})
    held = broker.occupy()
    result = broker.send("hold", 0.0, "w")
    wait_until(lambda: refusals(worker, result) >= 3, 20, "it asked again")
    broker.let_go()
    done([*held, result])
    assert deliveries(broker)[result.id] >= 3


def test_monitors_hear_of_one_receipt_and_one_start(broker: Site) -> None:
    with monitoring(broker) as monitor:
        worker = broker.start(concurrency=2, conf=OFTEN, options=["--task-events"])
        held = broker.occupy()
        result = broker.send("hold", 0.0, "w")
        wait_until(lambda: refusals(worker, result), 20, "it is refused")
        broker.let_go()
        done([*held, result])
        wait_until(lambda: "task-succeeded" in monitor.of(result), 10, "they heard of its end")
    assert [each for each in monitor.of(result) if each.startswith("task-")] == [
        "task-received",
        "task-started",
        "task-succeeded",
    ]


@pytest.mark.parametrize("how", ["by its id", "by a stamp", "expired"])
def test_it_ends_without_a_process(broker: Site, how: str) -> None:
    """Although nothing is granted to it."""
    worker = broker.start(concurrency=2, conf=LONG)
    held = broker.occupy()
    stamps = {"stamped_headers": ["stamp"], "stamps": {"stamp": ["x"]}}
    options: dict[str, Any] = {"expires": 2.0} if how == "expired" else {"headers": stamps}
    result = broker.send("hold", 0.0, "never", **options)
    wait_until(lambda: refusals(worker, result) == 1, 20, "it waits")
    if how == "by its id":
        result.revoke()
    elif how == "by a stamp":
        broker.client.control.revoke_by_stamped_headers({"stamp": ["x"]})
    wait_until(result.ready, 10, "it has a state")
    assert result.state == "REVOKED"
    assert refusals(worker, result) == 1
    broker.let_go()
    done(held)
    assert broker.counter.stats("never")["entries"] == 0


def test_a_revoke_that_terminates_ends_no_other(broker: Site) -> None:
    """The process that refused it runs another task by now."""
    worker = broker.start(concurrency=2, conf=waits(3.0, 3.0))
    broker.occupy()
    result = broker.send("hold", 0.0, "never")
    wait_until_kept(broker, worker, 1, running=1)
    busy = broker.send("call", None, "busy")
    wait_until(lambda: broker.inside("busy") == 1, 20, "the other process is busy")
    before = worker.children()
    result.revoke(terminate=True, signal="SIGKILL")
    wait_until(result.ready, 10, "it has a state")
    assert result.state == "REVOKED"
    assert worker.children() == before
    broker.let_go("busy")
    done([busy])


def test_a_wait_timeout_ends_it(broker: Site) -> None:
    """Although its next attempt would be much later."""
    broker.start(concurrency=2, conf=LONG)
    broker.occupy()
    result = broker.send("impatient", "i")
    wait_until(result.ready, 10, "it gave up")
    assert type(result.result).__name__ == "SemaphoreTimeout"


@valkey_only
def test_what_only_a_newer_release_can_run_goes_back(site: Site, valkey: ValkeyServer) -> None:
    """Or an old worker would take one message after the other from the new ones, and run none."""
    worker = site.start(concurrency=2, conf=OFTEN)
    set_format(valkey, NEWER)
    results = [site.send("hold", 0.0, "w") for _ in range(4)]
    wait_until(lambda: all(refusals(worker, each) >= 3 for each in results), 30, "each asked again")
    assert all(deliveries(site)[each.id] >= 3 for each in results)
    set_format(valkey, FORMAT)
    done(results)


# -- the ends of a worker

ENDS: dict[str, tuple[list[int], dict[str, Any]]] = {
    "TERM": ([signal.SIGTERM], {}),
    "QUIT": ([signal.SIGQUIT], {}),
    "TERM, then QUIT": ([signal.SIGTERM, signal.SIGQUIT], {}),
    "soft": ([signal.SIGQUIT], SOFT),
}


@pytest.mark.parametrize("how", ["TERM", "QUIT", *also("TERM, then QUIT", "soft")])
def test_a_shutdown_gives_all_of_them_back(broker: Site, how: str) -> None:
    """Another worker gets them, and each runs once."""
    signals, conf = ENDS[how]
    store = broker.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    worker = broker.start(concurrency=2, conf=LONG | conf)
    before = prefetch(broker, worker)
    results = [broker.send("hold", 0.0, "w") for _ in range(8)]
    results += [broker.send("late", "success", "w") for _ in range(8)]
    wait_until_kept(broker, worker, 16)
    # Celery's handler of QUIT reads from RabbitMQ in the midst of what the loop reads, and both then wait for long.
    wait_until(lambda: prefetch(broker, worker) == before + 16, 10, "it waits for no answer")
    for number in signals:
        worker.signal(number)
        if number == signal.SIGTERM:
            worker.wait_until(lambda: "go back to the broker" in worker.log(), 15, "it gave back")
    worker.wait(30)
    heir = broker.start(name="heir", concurrency=2, conf=LONG)
    wait_until_kept(broker, heir, 16)
    store.release("outside", [ONE])
    store.close()
    done(results)
    ran_each_once(broker, "w", results)


def test_they_are_given_back_while_other_tasks_run(broker: Site) -> None:
    """Or no other worker could run them for as long as those take."""
    store = broker.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    worker = broker.start(concurrency=2, conf=LONG)
    broker.send("call", None, "busy")
    wait_until(lambda: broker.inside("busy") == 1, 20, "a task runs that does not end")
    results = [broker.send("hold", 0.0, "w") for _ in range(5)]
    wait_until_kept(broker, worker, 5, running=1)
    worker.warm()
    worker.wait_until(lambda: "go back to the broker" in worker.log(), 15, "it gave back")
    store.release("outside", [ONE])
    store.close()
    broker.start(name="heir", concurrency=2, conf=OFTEN)
    done(results)
    assert worker.running()
    assert broker.inside("busy") == 1
    broker.let_go("busy")
    worker.wait(30)
    ran_each_once(broker, "w", results)


def kept_behind_another(site: Site, count: int) -> tuple[Any, CeleryWorker, list[Any]]:
    """Return the store, in which another program has the permit, the worker, and what it keeps."""
    site.lease = 60.0
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    worker = site.start(concurrency=1, conf=LONG)
    results = [site.send("hold", 0.0, "w") for _ in range(count)]
    wait_until_kept(site, worker, count)
    return store, worker, results


@pytest.mark.parametrize("how", ["warm", *also("cold")])
@MANY_ARE_KEPT
def test_the_first_in_line_is_delivered_first(
    site: Site, valkey: ValkeyServer, how: str, count: int, seconds: float
) -> None:
    """A newcomer stands behind them."""
    store, worker, results = kept_behind_another(site, count)
    getattr(worker, how)()
    worker.wait(seconds)
    newcomer = site.send("hold", 0.0, "w")
    store.close()
    with valkey.client() as client:
        assert client.hlen("unacked") == client.zcard("unacked_index") == 0
    ids = [each["id"] for each in queued(valkey)]
    assert ids[::-1] == [each.id for each in [*results, newcomer]]


@pytest.mark.rabbitmq
@MANY_ARE_KEPT
def test_rabbitmq_delivers_the_first_in_line_first(
    rabbit_site: Site, rabbitmq_server: Rabbit, count: int, seconds: float
) -> None:
    site = rabbit_site
    store, worker, results = kept_behind_another(site, count)
    worker.warm()
    worker.wait(seconds)
    store.close()
    with site.client.connection_for_read() as connection:
        queue = site.client.amqp.queues["celery"].bind(connection.default_channel)
        ids = [message.headers["id"] for _ in results if (message := queue.get(no_ack=True))]
    assert ids == [each.id for each in results]


def test_near_the_visibility_timeout_they_are_given_back(site: Site, valkey: ValkeyServer) -> None:
    """Half of it is the worker's: at its end the broker would deliver again what is kept here."""
    site.lease = 60.0
    visible = {"visibility_timeout": 12, "unacked_restore_interval": 1}
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    worker = site.start(concurrency=2, conf={"broker_transport_options": visible} | LONG)
    before = prefetch(site, worker)
    results = [site.send("hold", 0.0, "w") for _ in range(5)]
    wait_until(lambda: all(deliveries(site)[each.id] == 3 for each in results), 40, "three times")
    times = re.findall(
        r"\[\S+ (\d+):(\d+):(\d+),(\d+):.*?\] Task hold\[" + results[0].id, worker.log()
    )
    at = [int(h) * 3600 + int(m) * 60 + int(s) + int(ms) / 1000 for h, m, s, ms in times[:3]]
    assert all(5.5 <= later - sooner <= 8.0 for sooner, later in pairwise(at))
    wait_until(lambda: prefetch(site, worker) == before + 5, 10, "each raises the prefetch once")
    store.release("outside", [ONE])
    store.close()
    done(results)
    ran_each_once(site, "w", results)
    with valkey.client() as client:
        wait_until(lambda: client.hlen("unacked") == 0, 10, "all are acknowledged")


# -- a lost connection to the broker


def test_a_lost_connection(broker: Site, start_proxy: Callable[[int], Proxy]) -> None:
    """What was kept is delivered again, runs once, and the prefetch is as before."""
    port = int(re.search(r":(\d+)/", broker.broker)[1])  # type: ignore[index]
    proxy = start_proxy(port)
    worker = broker.start(
        concurrency=4, env={"BROKER": at_port(broker.broker, proxy.port)}, conf=waits(0.5, 1.0)
    )
    before = prefetch(broker, worker)
    store = broker.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    busy = broker.send("call", None, "busy")
    results = [broker.send("hold", 0.0, "w") for _ in range(20)]
    wait_until(lambda: all(refusals(worker, each) for each in results), 30, "all are kept")
    ready = worker.log().count("Connected to ")
    # Redis can be reached all the time: kombu restores messages while it closes what was lost.
    proxy.drop()
    worker.wait_until(lambda: "Connection to broker lost" in worker.log(), 20, "it has noticed")
    worker.wait_until(lambda: worker.log().count("Connected to ") > ready, 30, "it is back")
    wait_until(lambda: all(deliveries(broker)[each.id] == 2 for each in results), 40, "again")
    broker.send("free").get(timeout=10)
    store.release("outside", [ONE])
    store.close()
    broker.let_go("busy")
    done([*results, busy])
    ran_each_once(broker, "w", results)
    wait_until(lambda: prefetch(broker, worker) == before, 20, "the prefetch is as before")
    assert worker.log().count("Connected to ") == ready + 1
    assert "Unrecoverable" not in worker.log()


@pytest.mark.slow
@pytest.mark.skipif(
    kombu.VERSION < (5, 6), reason="this kombu restores nothing any more after it connected again"
)
def test_redis_is_away_while_the_lost_connection_is_closed(
    site: Site, start_proxy: Callable[[int], Proxy], valkey: ValkeyServer
) -> None:
    """kombu can then restore nothing: what was kept is delivered again after the visibility timeout."""
    site.lease = 60.0
    visible = {"visibility_timeout": 20, "unacked_restore_interval": 1}
    proxy = start_proxy(valkey.port)
    worker = site.start(
        concurrency=2,
        env={"BROKER": at_port(site.broker, proxy.port)},
        conf={"broker_transport_options": visible} | OFTEN,
    )
    before = prefetch(site, worker)
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    results = [site.send("hold", 0.0, "w") for _ in range(5)]
    # Nothing is asked by inspect: a worker whose answer is cut off waits for Redis in the middle of it, as Celery does.
    wait_until(lambda: all(refusals(worker, each) for each in results), 20, "all were kept")
    proxy.cut()
    worker.wait_until(lambda: "Cannot connect" in worker.log(), 20, "it has noticed")
    with valkey.client() as client:
        assert client.hlen("unacked") == 5
    proxy.restore()
    wait_until(lambda: all(deliveries(site)[each.id] >= 2 for each in results), 40, "again")
    store.release("outside", [ONE])
    store.close()
    done(results)
    ran_each_once(site, "w", results)
    wait_until(lambda: prefetch(site, worker) == before, 20, "the prefetch is as before")
    with valkey.client() as client:
        wait_until(lambda: client.hlen("unacked") == 0, 10, "all are acknowledged")
