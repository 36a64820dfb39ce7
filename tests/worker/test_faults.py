"""The store fails while tasks run: nobody new is admitted, nothing is lost, all goes on by itself.

The store has a server of its own here; the broker stays well.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from tests.conftest import StartServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer
from tests.support.variants import also

from .conftest import Site

API = Claim("api", None, 5)
Fault = Callable[[RedisServer], object]


@pytest.fixture
def store_server(start_valkey: StartServer) -> RedisServer:
    return start_valkey(appendonly="yes", appendfsync="always")


@pytest.fixture
def own_store(site: Site, store_server: RedisServer) -> Site:
    site.store_url = store_server.database(1)
    return site


def begin(site: Site, tasks: int, seconds: float) -> list[Any]:
    for name in ("a", "b"):
        site.start(name=name, concurrency=4, conf={"semaphore_timeout": 1})
    names = ["call", "call_late"]
    results = [site.send(names[n % 2], seconds, "api") for n in range(tasks)]
    wait_until(lambda: site.counter.stats("api")["completed"] >= 5, 20, "some are done")
    return results


def all_done(site: Site, results: list[Any], most: int = 5) -> None:
    wait_until(lambda: all(r.ready() for r in results), 80, "all are done")
    assert {r.state for r in results} == {"SUCCESS"}
    stats = site.counter.stats("api")
    assert stats["completed"] == len(results)
    assert stats["max_inside"] <= most
    site.wait_all_back(API, site.lease + 5)


def settled(site: Site) -> int:
    """How many began, once nobody is inside: who has its permit may need a moment to begin."""
    entries, since = -1, 0.0

    def for_a_second() -> bool:
        nonlocal entries, since
        stats = site.counter.stats("api")
        if stats["inside"] or stats["entries"] != entries:
            entries, since = stats["entries"], time.monotonic()
        return time.monotonic() - since > 1

    wait_until(for_a_second, 10, "those who ran are done")
    return entries


FORGETTING: dict[str, Fault] = {
    "restarted with its data": lambda server: server.restart(keep_data=True),
    "restarted without its data": lambda server: server.restart(keep_data=False),
    "flushed": lambda server: server.client().flushall(),
}


@pytest.mark.parametrize(
    "how", ["restarted with its data", "restarted without its data", *also("flushed")]
)
def test_the_store_forgets(own_store: Site, store_server: RedisServer, how: str) -> None:
    results = begin(own_store, 50, 0.4)
    FORGETTING[how](store_server)
    all_done(own_store, results)


def test_a_server_that_is_broker_and_store_forgets(
    own_store: Site, store_server: RedisServer
) -> None:
    """The worker hears of it from the first answer to the session of its new connection."""
    worker = own_store.start(concurrency=1, env={"BROKER": store_server.url})
    store = own_store.store()
    wait_until(lambda: store.ask("looks").sessions == 2, 20, "its session asked")
    store.close()
    store_server.restart(keep_data=False)
    wait_until(lambda: "may have forgotten permits" in worker.log(), 20, "it says so")


def test_who_runs_keeps_its_permit_when_the_store_forgets(
    own_store: Site, store_server: RedisServer
) -> None:
    """Five long tasks run, the store forgets them, and no sixth gets in."""
    for name in ("a", "b"):
        own_store.start(name=name, concurrency=6)
    long = [own_store.send("call", 8.0, "api") for _ in range(5)]
    wait_until(lambda: own_store.inside("api") == 5, 20, "five run")
    store_server.restart(keep_data=False)
    short = [own_store.send("call", 0.05, "api") for _ in range(10)]
    all_done(own_store, long + short)
    assert any("took it back" in worker.log() for worker in own_store.workers)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["cut", "hang"])
def test_the_store_cannot_be_reached(
    own_store: Site, store_server: RedisServer, start_proxy: Callable[[int], Proxy], how: str
) -> None:
    """For longer than a lease: those who run go on, nobody new begins, unlimited tasks pass by."""
    proxy = start_proxy(store_server.port)
    own_store.store_url = f"redis://127.0.0.1:{proxy.port}/1"
    results = begin(own_store, 40, 0.3)
    getattr(proxy, how)()
    at_once = own_store.counter.stats("api")
    entries = settled(own_store)
    assert entries <= at_once["entries"] + 5 - at_once["inside"], "who had a permit, at the most"
    since = time.time()
    # Those before may all wait, and each of the eight processes finds out for itself that the store hangs.
    results += [own_store.send("call", 0.05, "api") for _ in range(40)]
    free = [own_store.send("free") for _ in range(20)]
    wait_until(lambda: all(r.ready() for r in free), 15, "unlimited tasks are done")
    wait_until(lambda: time.time() - since > 6, 10, "the outage is longer than a lease")
    assert own_store.counter.stats("api")["entries"] == entries, "nobody new was admitted"
    logs = [worker.log() for worker in own_store.workers]
    log = "".join(logs)
    said = re.findall(r"task call\S* waits [\d.]+ s: the store cannot be asked: (.*)", log)
    warned = len(re.findall("WARNING.*the store cannot be asked", log))
    assert 0 < warned < len(said), "a warning for each call that failed, not for each task"
    assert not any("cannot be asked" in reason or "did not answer" in reason for reason in said)
    assert all(each.count("cannot be renewed") <= 1 for each in logs)
    proxy.restore()
    all_done(own_store, results)


def test_a_slow_store(
    own_store: Site, store_server: RedisServer, start_proxy: Callable[[int], Proxy]
) -> None:
    proxy = start_proxy(store_server.port)
    own_store.store_url = f"redis://127.0.0.1:{proxy.port}/1"
    proxy.delay(0.1)
    all_done(own_store, begin(own_store, 40, 0.1))


def test_lost_answers(
    own_store: Site, store_server: RedisServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """The store did what was asked, and the answer never came: no permit leaks, nobody runs twice."""
    own_store.lease = 60.0
    proxy = start_proxy(store_server.port)
    own_store.store_url = f"redis://127.0.0.1:{proxy.port}/1"
    results = begin(own_store, 60, 0.1)

    def were_dropped(answers: int) -> bool:
        return proxy.answers_dropped >= answers

    for dropped in (3, 6, 9):
        proxy.drop_answers(3, matching=b"EVALSHA")
        wait_until(partial(were_dropped, dropped), 20, "answers were dropped")
    wait_until(lambda: all(r.ready() for r in results), 80, "all are done")
    assert own_store.counter.stats("api")["entries"] == 60
    # On a slow machine fewer were inside at once: what was admitted without an answer is used by nothing for seconds.
    held = own_store.occupy(5, task="call", resource="api")
    assert own_store.counter.stats("api")["max_inside"] == 5
    own_store.let_go("api")
    wait_until(lambda: all(r.ready() for r in held), 20, "they have ended")
    own_store.wait_all_back(API, 15)


def test_the_store_is_away_when_a_worker_starts(
    own_store: Site, store_server: RedisServer, start_proxy: Callable[[int], Proxy]
) -> None:
    proxy = start_proxy(store_server.port)
    own_store.store_url = f"redis://:secret@127.0.0.1:{proxy.port}/1"
    proxy.cut()
    worker = own_store.start(concurrency=2)
    assert "limited tasks wait until the store of semaphores can be reached" in worker.log()
    assert "secret" not in worker.log()
    assert own_store.send("free").get(timeout=10)


def test_a_paused_worker_loses_its_permit(site: Site) -> None:
    """Its permit goes to another after one lease; when it goes on, it learns of the loss."""
    # A queue of its own, or it would already have asked the broker for the other's message.
    paused = site.start(name="paused", concurrency=1, queues=["slow"])
    site.start(name="other", concurrency=1)
    slow = site.send("hold", 6.0, "one", queue="slow")
    wait_until(lambda: site.inside("one") == 1, 20, "it runs")
    main = paused.pid
    (_, _, _, _, child, _) = site.counter.log("one")[-1]
    paused.pause()
    began = time.monotonic()
    other = site.send("hold", 0.1, "one")
    other.get(timeout=20)
    assert time.monotonic() - began < site.lease + 3, "within one lease, and not much later"
    assert main != child
    paused.resume()
    slow.get(timeout=20)
    wait_until(lambda: "lost its permit" in paused.log(), 10, "it learned of the loss")


def test_on_lost_terminate(own_store: Site, store_server: RedisServer) -> None:
    worker = own_store.start(concurrency=1, conf={"semaphore_on_lost": "terminate"})
    result = own_store.send("hold", 60.0, "one")
    wait_until(lambda: own_store.inside("one") == 1, 20, "it runs")
    # As an operator who releases it by force.
    (held,) = own_store.store().snapshot("one").holders
    own_store.store().release(held.holder, [Claim("one", None, 1)])
    wait_until(result.ready, 20, "it was ended")
    assert result.state == "FAILURE"
    assert type(result.result).__name__ == "PermitLost"
    assert own_store.inside("one") == 0
    assert "lost its permit" in worker.log()


def test_the_store_forgets_before_a_new_worker_ran_anything(
    own_store: Site, store_server: RedisServer
) -> None:
    """It must know that there was something to forget, or it would admit beside the other's task."""
    own_store.lease = 15.0
    old = own_store.start(name="old", concurrency=1, queues=["old"])
    (held,) = own_store.occupy(resource="one", queue="old")
    old.pause()  # or it might put its permit back before the new worker asks
    forgets = {"FLUSH_AFTER_SETUP": store_server.database(1)}
    new = own_store.start(name="new", concurrency=1, env=forgets)
    result = own_store.send("hold", 0.0, "one")
    wait_until(lambda: result.ready() or "is recovering" in new.log(), 15, "it asked")
    assert own_store.inside("one") == 1
    old.resume()
    wait_until(lambda: "took it back" in old.log(), 15, "it has its permit again")
    own_store.let_go("one")
    wait_until(lambda: held.ready() and result.ready(), 40, "both are done")
    stats = own_store.counter.stats("one")
    assert (stats["completed"], stats["max_inside"]) == (2, 1)
