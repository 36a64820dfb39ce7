"""A message that the broker delivers again: while its task runs, and after its run came to nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import celery
import kombu
import pytest
from celery.result import AsyncResult

from celery_semaphore.core.claim import Claim
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer
from tests.support.variants import also

from ..brokers import EITHER
from ..conftest import Site
from .test_brokers import at_port
from .test_parking import PARK, deliveries, done, started

ONE = Claim("one", None, 1)
REQUEUE = {"semaphore_on_saturated": "requeue"}
WAYS = [pytest.param(REQUEUE, id="requeue"), pytest.param(PARK, id="park")]
VISIBLE_S = 2.0
# kombu looks for messages to restore at each tenth of these intervals.
RESTORING = {"visibility_timeout": VISIBLE_S, "unacked_restore_interval": 0.05}
SOON: dict[str, Any] = {"broker_transport_options": RESTORING}
ONE_EACH = {"worker_prefetch_multiplier": 1}  # a busy worker receives nothing
ways = pytest.mark.parametrize("how", WAYS)
brokers = pytest.mark.parametrize("broker", EITHER)


@pytest.fixture
def on(broker: str, request: pytest.FixtureRequest) -> Site:
    site: Site = request.getfixturevalue(broker)
    return site


def runs(site: Site, result: AsyncResult, resource: str) -> int:
    return started(site, resource).count(result.id)


def nothing_is_left(site: Site, valkey: ValkeyServer) -> None:
    with valkey.client() as client:
        wait_until(lambda: not client.exists("unacked", "celery"), 10, "all are acknowledged")
    wait_until(lambda: site.waiting() == 0, 10, "nothing waits")
    site.wait_all_back(ONE, 10)


def restored(valkey: ValkeyServer, site: Site) -> None:
    """Deliver all unacknowledged messages again, as any worker does after the visibility timeout."""
    with valkey.client() as client, site.client.connection_for_write() as connection:
        for tag in client.hkeys("unacked"):
            connection.default_channel.qos.restore_by_tag(tag.decode())


def refused_as_running(site: Site, result: AsyncResult) -> int:
    said = f"[{result.id}] waits: it may be running already"
    return sum(worker.log().count(said) for worker in site.workers)


@pytest.mark.skipif(
    kombu.VERSION < (5, 6), reason="this kombu looks for them each ten seconds, whatever is set"
)
@pytest.mark.parametrize(
    ("workers", "how"), [(1, PARK), (2, REQUEUE), *also((1, REQUEUE), (2, PARK))]
)
def test_a_late_task_that_outlives_the_visibility_timeout_ends(
    site: Site, valkey: ValkeyServer, how: dict[str, Any], workers: int
) -> None:
    """It waits first, and runs for three of them, in which its message comes again and goes back each time."""
    for n in range(
        workers
    ):  # with processes that are free: a first delivery that is late runs, as in plain Celery
        site.start(name=f"w{n}", concurrency=4 // workers, conf=how | SOON)
    site.occupy()
    long = site.send("hold_late", 3 * VISIBLE_S, "long")
    wait_until(lambda: site.waiting() == 1, 20, "it waits")
    behind = site.send("hold_late", 0.0, "behind")
    wait_until(lambda: site.waiting() == 2, 20, "the other one waits")
    site.let_go()
    done([long, behind], 40)
    assert refused_as_running(site, long) > 0
    nothing_is_left(site, valkey)
    assert (runs(site, long, "long"), runs(site, behind, "behind")) == (1, 1)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_first_message_that_comes_again_while_it_runs(
    site: Site, valkey: ValkeyServer, workers: int
) -> None:
    """Keep it, in the same worker or another, until the first run has acknowledged it: both have one tag."""
    for n in range(workers):
        site.start(name=f"w{n}", concurrency=3 - workers)
    (long,) = site.occupy(task="hold_late")
    for n in range(2):
        restored(valkey, site)
        wait_until(lambda n=n: deliveries(site)[long.id] > n + 1, 20, "it comes again")  # type: ignore[misc]
    wait_until(lambda: refused_as_running(site, long), 20, "it is refused")
    site.let_go()
    done([long, site.send("hold_late", 0.0, "behind")], 20)
    wait_until(lambda: "this is a copy" in "".join(w.log() for w in site.workers), 20, "dropped")
    nothing_is_left(site, valkey)
    assert runs(site, long, "held") == 1


def test_it_runs_when_the_worker_of_its_run_dies(site: Site, valkey: ValkeyServer) -> None:
    first = site.start(name="first", concurrency=1, conf=ONE_EACH)
    (long,) = site.occupy(task="hold_late")
    site.start(name="second", concurrency=1)
    restored(valkey, site)
    wait_until(lambda: refused_as_running(site, long), 20, "it is kept")
    first.kill_group()
    site.counter.let_go("held")
    done([long], 20)
    nothing_is_left(site, valkey)
    assert runs(site, long, "held") == 2


@pytest.mark.parametrize("first_ends", [True, False], ids=["run over", "run goes on"])
def test_a_shutdown_gives_it_back(site: Site, valkey: ValkeyServer, *, first_ends: bool) -> None:
    """The first run's acknowledgement, before or after that, takes it from no other worker."""
    site.start(name="first", concurrency=1, conf=ONE_EACH)
    (long,) = site.occupy(task="hold_late")
    second = site.start(name="second", concurrency=1)
    restored(valkey, site)
    second.wait_until(lambda: refused_as_running(site, long) > 0, 20, "it is kept")
    if first_ends:
        site.let_go()
        done([long])
    second.warm()
    second.wait(20)
    site.let_go()
    done([long, site.send("hold_late", 0.0, "behind")], 20)
    nothing_is_left(site, valkey)
    assert runs(site, long, "held") == 1


@pytest.mark.skipif(
    celery.VERSION < (5, 7),
    reason="Celery before 5.7 begins it only when the first run has ended, as it does with plain tasks",
)
@pytest.mark.rabbitmq
@ways
def test_a_lost_connection_while_it_runs(
    rabbit_site: Site, start_proxy: Callable[[int], Proxy], how: dict[str, Any]
) -> None:
    """RabbitMQ delivers it again at once; the first run goes on, and cannot acknowledge it any more."""
    site = rabbit_site
    proxy = start_proxy(int(re.search(r":(\d+)/", site.broker)[1]))  # type: ignore[index]
    env = {"BROKER": at_port(site.broker, proxy.port)}
    worker = site.start(concurrency=2, env=env, conf=how)
    site.occupy(task="hold_late", resource="first")
    long = site.send("hold_late", None, "held")
    wait_until(lambda: site.waiting() == 1, 20, "it waits")
    site.let_go("first")
    wait_until(lambda: site.inside("held") == 1, 20, "it runs")
    proxy.drop()
    worker.wait_until(lambda: refused_as_running(site, long) > 0, 40, "it comes again")
    site.let_go()
    done([long, site.send("hold_late", 0.0, "behind")], 40)
    site.wait_all_back(ONE, 20)
    wait_until(lambda: site.waiting() == 0, 20, "nothing waits")
    assert runs(site, long, "held") == 1


@ways
@brokers
def test_those_that_are_rejected_for_ever_let_others_run(on: Site, how: dict[str, Any]) -> None:
    """Their waits began with an admission that is over: they stand behind those that wait."""
    on.start(concurrency=2, conf=how)
    on.occupy()
    for n in range(1, 3):
        on.send("rejects", "bad")
        wait_until(lambda n=n: on.waiting() == n, 20, "it waits")  # type: ignore[misc]
    on.let_go()
    wait_until(lambda: len(set(started(on, "bad"))) == 2, 20, "both have run")
    done([on.send("hold_late", 0.1, "good") for _ in range(3)], 3)


@ways
@brokers
def test_a_wait_timeout_counts_no_run(on: Site, how: dict[str, Any]) -> None:
    """Reject a task that has run for longer than it may wait: it finds a free permit, and runs."""
    on.start(concurrency=2, conf=how)
    on.occupy()
    result = on.send("rejects_once", 2.5, "again")
    wait_until(lambda: on.waiting() == 1, 20, "it waits")
    on.let_go()
    done([result], 20)
    assert runs(on, result, "again") == 2
