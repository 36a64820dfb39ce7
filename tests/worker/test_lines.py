"""Messages that join a line without a process: on real workers, through outages, kills and restarts."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from tests.conftest import StartServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer
from tests.support.worker import CeleryWorker

from .conftest import Site

API, ONE = Claim("api", None, 5), Claim("one", None, 1)
both_brokers = pytest.mark.parametrize("kind", ["site", "rabbit_site"])
both_ways = pytest.mark.parametrize("policy", ["wait", "requeue"])


def refused_by(worker: CeleryWorker, process: str) -> int:
    """How many refusals the worker's processes of this kind have logged."""
    return len(re.findall(rf"{process}\S*\] task \S+ (?:waits|is parked)", worker.log()))


def all_ran_once(site: Site, results: list[Any], resource: str, most: int) -> None:
    wait_until(lambda: all(r.ready() for r in results), 90, "all are done")
    assert {r.state for r in results} == {"SUCCESS"}
    stats = site.counter.stats(resource)
    assert stats["completed"] == len(results)
    assert {task["entries"] for task in stats["tasks"].values()} == {1}
    assert stats["max_inside"] <= most


@both_brokers
@both_ways
def test_what_must_wait_needs_no_process(
    kind: str, policy: str, request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(kind)
    worker = site.start(concurrency=6, conf={"semaphore_on_saturated": policy})
    held = [site.send("call", None, "api") for _ in range(5)]
    wait_until(lambda: site.inside("api") == 5, 20, "the permits are taken")
    waits = [site.send("call", 0.02, "api") for _ in range(80)]
    wait_until(lambda: site.waiting("api") == 80, 30, "all wait")
    wait_until(
        lambda: refused_by(worker, "MainProcess") + refused_by(worker, "ForkPool") == 80,
        10,
        "all are logged",
    )
    assert refused_by(worker, "MainProcess") > 60
    assert refused_by(worker, "ForkPool") >= 1
    site.let_go("api")
    all_ran_once(site, held + waits, "api", 5)
    site.wait_all_back(API, 5)


@both_brokers
def test_a_line_that_ends_again_and_again(kind: str, request: pytest.FixtureRequest) -> None:
    """So that permits come by all ways: a task is sent whenever one has ended, also where none waits any more."""
    site: Site = request.getfixturevalue(kind)
    site.start(concurrency=6, conf={"semaphore_on_saturated": "wait"})
    results = []
    for n in range(200):
        results.append(site.send("call", 0.03, "api"))
        ended = (
            n - n % 12 - 4
        )  # bursts of twelve: the line of each has nearly ended when the next one comes
        wait_until(partial(_has_ended, site, ended), 30, "a line has nearly ended")
    all_ran_once(site, results, "api", 5)
    site.wait_all_back(API, 5)


def test_a_message_that_cannot_be_read(site: Site) -> None:
    """It fails by itself; neither its worker nor the others do."""
    site.start(concurrency=2)
    results = [site.send("hold", None, "one")]
    wait_until(lambda: site.inside("one") == 1, 20, "the permit is taken")
    results.append(site.send("hold", 0.01, "one"))
    wait_until(lambda: site.waiting("one") == 1, 20, "the next one waits")
    bad = site.send("hold", 0.01, "one", priority="5")
    wait_until(bad.ready, 20, "it has failed")
    assert bad.state == "FAILURE"
    site.let_go("one")
    all_ran_once(site, results, "one", 1)


def _has_ended(site: Site, tasks: int) -> bool:
    return int(site.counter.stats("api")["completed"]) >= tasks


def _all_wait(site: Site, tasks: int) -> bool:
    return site.waiting("one") == tasks


@pytest.fixture
def store_server(start_valkey: StartServer) -> RedisServer:
    return start_valkey(appendonly="yes", appendfsync="always")


@pytest.fixture
def proxied(
    rabbit_site: Site, store_server: RedisServer, start_proxy: Callable[[int], Proxy]
) -> tuple[Site, Proxy]:
    """A site whose workers reach their store through a proxy, and the tests without it."""
    proxy = start_proxy(store_server.port)
    rabbit_site.store_url = f"redis://127.0.0.1:{proxy.port}/1"
    return rabbit_site, proxy


def saturated(site: Site, store_server: RedisServer, **conf: Any) -> tuple[CeleryWorker, list[Any]]:
    """A worker on which one task runs and some wait, so that the next ones join their line."""
    conf = {"semaphore_on_saturated": "wait", "semaphore_timeout": 2} | conf
    worker = site.start(concurrency=3, conf=conf)
    site.store_url, through = store_server.database(1), site.store_url
    results = [site.send("hold", None, "one")]
    wait_until(lambda: site.inside("one") == 1, 20, "the permit is taken")
    results += [site.send("hold", 0.01, "one") for _ in range(8)]
    wait_until(lambda: site.waiting("one") == 8, 20, "they wait")
    site.store_url = through
    return worker, results


def test_the_answer_to_a_batch_is_lost(
    proxied: tuple[Site, Proxy], store_server: RedisServer
) -> None:
    site, proxy = proxied
    _, results = saturated(site, store_server)
    proxy.drop_answers(1, matching=b"joins-3")
    results += [site.send("hold", 0.01, "one", task_id=f"joins-{n}") for n in range(10)]
    wait_until(lambda: proxy.answers_dropped, 20, "the answer was dropped")
    site.let_go("one")
    all_ran_once(site, results, "one", 1)
    site.wait_all_back(ONE, 5)


@pytest.mark.parametrize("how", ["kill", "term", "quit"])
def test_the_worker_ends_while_it_asks(
    how: str, proxied: tuple[Site, Proxy], store_server: RedisServer
) -> None:
    """What it asked for is delivered to another worker, and finds its place or a new one."""
    site, proxy = proxied
    worker, results = saturated(site, store_server)
    proxy.hang(b"joins-")  # not before: a connection that is made then would not come to ask
    results += [site.send("hold", 0.01, "one", task_id=f"joins-{n}") for n in range(10)]
    wait_until(lambda: proxy.holds(b"joins-"), 20, "it asks")
    if how == "kill":
        worker.kill_group()
    elif how == "term":
        worker.warm()
    else:
        worker.cold()
    site.let_go("one")
    wait_until(lambda: site.inside("one") == 0, 20, "the one that ran has ended")
    proxy.restore()
    site.start(concurrency=3, name="next", conf={"semaphore_on_saturated": "wait"})
    wait_until(lambda: all(r.ready() for r in results[1:]), 90, "all are done but the one that ran")
    stats = site.counter.stats("one")
    assert stats["max_inside"] == 1
    assert {stats["tasks"][result.id]["entries"] for result in results[1:]} == {1}
    site.wait_all_back(ONE, site.lease + 5)


def test_the_broker_is_lost_while_the_worker_asks(
    rabbit_site: Site,
    store_server: RedisServer,
    start_proxy: Callable[[int], Proxy],
) -> None:
    """Each message is delivered again, and runs once."""
    site, direct = rabbit_site, rabbit_site.broker
    store = start_proxy(store_server.port)
    port = int(direct.rsplit(":", 1)[1].split("/")[0])
    broker = start_proxy(port)
    site.store_url = f"redis://127.0.0.1:{store.port}/1"
    site.broker = direct.replace(f":{port}", f":{broker.port}")
    _, results = saturated(site, store_server)
    site.store_url = store_server.database(1)
    for turn in range(1, 4):
        store.hang(b"joins-")
        names = [f"joins-{turn}-{n}" for n in range(10)]
        results += [site.send("hold", 0.01, "one", task_id=name) for name in names]
        wait_until(partial(store.holds, b"joins-"), 20, "the worker asks")
        broker.drop()
        store.restore()
        wait_until(partial(_all_wait, site, 8 + 10 * turn), 30, "all wait again")
    site.let_go("one")
    all_ran_once(site, results, "one", 1)
    site.wait_all_back(ONE, site.lease + 5)


def test_a_function_of_the_user_never_runs_in_the_main_process(site: Site) -> None:
    worker = site.start(concurrency=2, conf={"semaphore_on_saturated": "wait"})
    held = site.send("keyed", None, "a")
    wait_until(lambda: site.inside("a") == 1, 20, "it runs")
    results = [held, *(site.send("keyed", 0.01, "a") for _ in range(30))]
    wait_until(lambda: refused_by(worker, "ForkPool") == 30, 20, "processes tried all")
    assert refused_by(worker, "MainProcess") == 0
    site.let_go("a")
    all_ran_once(site, results, "a", 1)
