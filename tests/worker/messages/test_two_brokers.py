"""Two brokers, in two databases of one server, whose workers share a store: a task runs in its own broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from celery import Celery
from celery.result import AsyncResult

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.wait import Kind
from celery_semaphore.worker.messages.broker import name_of_broker
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.variants import also
from tests.support.worker import CeleryWorker

from ..conftest import Site, valkey_only
from .test_parking import PARK, all_parked, done, ran_once

WAIT: dict[str, Any] = {"semaphore_on_saturated": "wait"}
SWEEP_S = 2.0


class Region:
    """A broker of a site, with its workers and its tasks."""

    def __init__(self, site: Site, broker: str, queue: str) -> None:
        self.site, self.broker, self.queue = site, broker, queue
        self.client = Celery("region", broker=broker, backend=site.backend)
        self.name = name_of_broker(self.client)
        self.results: list[AsyncResult] = []

    def start(self, conf: dict[str, Any], **options: Any) -> CeleryWorker:
        env = {"BROKER": self.broker}
        return self.site.start(conf=conf, env=env, queues=[self.queue], **options)

    def send(self, *args: Any) -> AsyncResult:
        result = self.client.send_task("hold", args, queue=self.queue)
        self.results.append(result)
        self.site.results.append(result)
        return result


@pytest.fixture(params=["one queue", *also("two queues")])
def regions(site: Site, request: pytest.FixtureRequest) -> Iterator[tuple[Region, Region]]:
    queues = ("celery", "celery") if request.param == "one queue" else ("qa", "qb")
    base = site.broker.removesuffix("/0")
    a, b = (Region(site, f"{base}/{n}", queue) for n, queue in zip((3, 4), queues, strict=True))
    yield a, b
    for region in (a, b):
        region.client.close()


def holds(site: Site, resource: str) -> bool:
    return site.inside(resource) == 1


def crossed(region: Region, workers: list[CeleryWorker]) -> set[str]:
    """Return which of its tasks one of these workers of another broker received."""
    logs = "".join(worker.log() for worker in workers)
    return {result.id for result in region.results if f"[{result.id}] received" in logs}


def left(valkey: ValkeyServer, *regions: Region) -> dict[bytes, int]:
    """Return the messages that lie in their queues."""
    found: dict[bytes, int] = {}
    for region in regions:
        with valkey.client(db=int(region.broker.rpartition("/")[2])) as client:
            lists: Any = [key for key in client.scan_iter() if client.type(key) == b"list"]
            found |= {key: client.llen(key) for key in lists}
    return found


def test_each_task_runs_in_its_own_broker(
    site: Site, regions: tuple[Region, Region], valkey: ValkeyServer
) -> None:
    """The permits of each are handed to tasks of the other, and nothing is lost or sent across."""
    a, b = regions
    in_a, in_b = a.start(PARK, name="a"), b.start(PARK, name="b")
    a.send(None, "held")
    wait_until(lambda: site.inside("held") == 1, 20, "the permit is taken")
    for region in (a, b, b, a) * 10:
        region.send(0.01, "w")
    wait_until(lambda: site.waiting() == 40, 20, "they are parked")
    since = time.monotonic()
    site.let_go()
    done(a.results + b.results, 60)
    print("40 tasks, changing sides 20 times:", time.monotonic() - since)  # noqa: T201 - a figure
    ran_once(site, "w", a.results[1:] + b.results, 1)
    assert crossed(a, [in_b]) == crossed(b, [in_a]) == set()
    assert left(valkey, a, b) == {}
    site.wait_all_back(Claim("one", None, 1), 5)


def test_a_grant_of_the_other_broker_is_found_by_the_next_sweep(
    site: Site, regions: tuple[Region, Region]
) -> None:
    a, b = regions
    a.start(PARK, name="a")
    b.start(PARK, name="b")
    late = []
    for n in range(5):
        b.send(None, f"held {n}")
        wait_until(partial(holds, site, f"held {n}"), 20, "the permit is taken")
        waiter = a.send(0.0, "w")
        wait_until(lambda: site.waiting() == 1, 20, "it is parked")
        site.let_go(f"held {n}")
        since = time.monotonic()
        done([waiter], 10)
        late.append(time.monotonic() - since)
    print("a grant was found after", sorted(late))  # noqa: T201 - a figure for the report
    assert max(late) < SWEEP_S + 1


def test_while_no_worker_of_its_broker_is_left(
    site: Site, regions: tuple[Region, Region], valkey: ValkeyServer
) -> None:
    """No other broker gets its tasks; they run once there is a worker again."""
    a, b = regions
    conf = PARK | {"semaphore_take_up": 1}
    in_a, in_b = a.start(conf, name="a"), b.start(conf, name="b")
    b.send(None, "held")
    wait_until(lambda: site.inside("held") == 1, 20, "the permit is taken")
    for _ in range(5):
        a.send(0.0, "w")
    wait_until(lambda: site.waiting() == 5, 20, "they are parked")
    with valkey.client(db=int(a.broker.rpartition("/")[2])) as client:
        wait_until(lambda: client.hlen("unacked") == 0, 10, "and acknowledged")
    in_a.warm()
    in_a.wait(20)
    site.let_go()
    store = site.store()
    ends: set[float] = set()

    def granted_anew() -> bool:
        ends.update(each.expires_at for each in store.snapshot("one").holders if each.ticket)
        return len(ends) >= 3

    wait_until(granted_anew, 20, "it was granted three times")
    assert not any(result.ready() for result in a.results)
    assert left(valkey, a, b) == {}
    again = a.start(conf, name="again")
    done(a.results + b.results, 20)
    # Not each by two deliveries: a grant of a second may end while its message is on its way, and come again.
    ran_once(site, "w", a.results, 1, parked=False)
    assert crossed(a, [in_b]) == crossed(b, [in_a, again]) == set()
    store.close()


@valkey_only
def test_by_default_they_are_kept(site: Site, regions: tuple[Region, Region]) -> None:
    """The first worker of the second broker starts while tasks of the first are parked."""
    a, b = regions
    in_a = a.start(WAIT, name="a")
    a.send(None, "held")
    wait_until(lambda: site.inside("held") == 1, 20, "the permit is taken")
    for _ in range(5):
        a.send(0.0, "w")
    wait_until(lambda: site.waiting() == 5, 20, "they are parked")
    in_b = b.start(WAIT, name="b")
    for _ in range(5):
        b.send(0.0, "w")
    wait_until(lambda: site.waiting() == 10, 20, "all wait")
    store = site.store()
    kinds = [waiter.kind for waiter in store.snapshot("one").waiters]
    assert (kinds.count(Kind.PARK), kinds.count(Kind.REQUEUE)) == (5, 5)
    also_in_a = a.start(WAIT, name="also")
    site.let_go()
    done(a.results + b.results, 20)
    ran_once(site, "w", a.results[1:] + b.results, 1, parked=False)
    assert crossed(a, [in_b]) == crossed(b, [in_a, also_in_a]) == set()
    for worker, own, other in ((in_b, b, a), (also_in_a, a, b)):
        lines = [line for line in worker.log().splitlines() if "several brokers" in line]
        assert len(lines) == 1
        assert "WARNING" in lines[0]
        assert f"{own.name} and {other.name}" in lines[0]
        assert "semaphore_broker" in lines[0]
        assert 'on_saturated="park"' in lines[0]
    store.close()


@valkey_only
def test_one_broker_by_two_addresses(site: Site, request: pytest.FixtureRequest) -> None:
    """With one name, each worker sends the tasks that the other has parked."""
    named = WAIT | {"semaphore_broker": "ours"}
    host = site.broker.replace("127.0.0.1", "localhost")
    assert host != site.broker
    a, b = Region(site, site.broker, "celery"), Region(site, host, "celery")
    assert a.name != b.name
    first = a.start(named, name="a")
    a.send(None, "held")
    wait_until(lambda: site.inside("held") == 1, 20, "the permit is taken")
    for _ in range(5):
        a.send(0.0, "w")
    all_parked(site, request, 5)
    second = b.start(named, name="b")
    first.kill_group()
    store = site.store()
    store.set_limit(2, "one")  # its permit is the dead worker's for a lease
    wait_until(lambda: all(result.ready() for result in a.results[1:]), 20, "they have run")
    assert "waiting tasks are parked in" in second.log()
    assert "several brokers" not in second.log()
    store.close()
