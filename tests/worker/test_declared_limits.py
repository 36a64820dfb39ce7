"""Deployments and stray callers that declare different limits: the smallest declared recently is in force."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.core.held_permits import by_store
from celery_semaphore.core.names import process_name
from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import SemaphoreTimeout
from celery_semaphore.ops import tables
from celery_semaphore.ops.inspector import Inspector
from tests.support.process import wait_until
from tests.support.worker import CeleryWorker

from .conftest import Site

SHORT, LONG = 0.15, 0.4  # seconds inside


@pytest.fixture(autouse=True)
def _no_keeper_stays() -> Iterator[None]:
    """One that goes on would be the first caller of a later test's store, whose lease it would set."""
    before = set(by_store)
    yield
    for store in set(by_store) - before:
        by_store.pop(store).close()


def deployed(site: Site, limit: int) -> CeleryWorker:
    return site.start(
        app="tests.worker.deployment",
        name=f"of-{limit}",
        concurrency=8,
        env={"LIMIT": str(limit)},
    )


def most_inside(site: Site, resource: str, *, stray: int | None = None, orders: int = 40) -> int:
    """Send orders, and let callers outside tasks take permits meanwhile; return how many were inside together."""
    results = [site.send("order", SHORT, resource) for _ in range(orders)]
    done = Event()

    def be_stray_until_done(n: int) -> None:
        while not done.is_set():
            be_stray(site, resource, stray or 0, n)

    with ThreadPoolExecutor(10) as threads:
        for n in range(0 if stray is None else 10):
            threads.submit(be_stray_until_done, n)
        try:
            wait_until(lambda: all(each.ready() for each in results), 60, f"{resource} is done")
        finally:
            done.set()
    assert {each.state for each in results} == {"SUCCESS"}
    return int(site.counter.stats(resource)["max_inside"])


def be_stray(site: Site, resource: str, limit: int, n: int) -> None:
    semaphore = Semaphore(
        "orders", limit=limit, url=site.store_url, prefix=site.prefix, lease=site.lease
    )
    counter = type(site.counter).from_env()
    try:
        permit = semaphore.acquire(timeout=2.0)
        with counter.inside(resource, f"stray {n}"):
            counter.remain(resource, LONG)
        semaphore.release(permit)
    except SemaphoreTimeout:
        pass
    finally:
        counter.close()


def in_force(site: Site) -> DeclaredLimit | None:
    store = site.store()
    try:
        return store.snapshot("orders").declared
    finally:
        store.close()


def wait_in_force(site: Site, limit: int, by: str) -> None:
    expected = DeclaredLimit(limit, by)
    wait_until(lambda: in_force(site) == expected, 5 * site.lease, f"{expected} is in force")


def told(worker: CeleryWorker, limits: str, by: str, of: str = "'orders'") -> int:
    return worker.log().count(f"semaphore {of}: limit {limits} declared by {by}:")


def test_the_smallest_limit_holds_while_it_is_declared(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Roll from 50 to 5 and back, with stray callers: never above 5 while a 5 is declared."""
    for name, value in site.counter_env.items():
        monkeypatch.setenv(name, value)
    old = deployed(site, 50)
    wait_in_force(site, 50, old.hostname)
    assert most_inside(site, "of 50") > 5  # else nothing below would show anything

    new = deployed(site, 5)
    wait_in_force(site, 5, new.hostname)
    assert most_inside(site, "50 to 5", stray=50) == 5
    wait_until(lambda: told(old, "50 here, 5", new.hostname), 10, "the old one is told")
    old.stop()
    assert most_inside(site, "of 5", stray=50) == 5

    newest = deployed(site, 50)
    assert most_inside(site, "5 to 50", stray=50) == 5
    wait_until(lambda: told(newest, "50 here, 5", new.hostname), 10, "the newest is told")
    assert in_force(site) == DeclaredLimit(5, new.hostname)
    assert told(old, "50 here, 5", new.hostname) == told(newest, "50 here, 5", new.hostname) == 1

    be_stray(site, "stray", 1, 0)
    by = process_name()
    wait_in_force(site, 1, by)
    assert most_inside(site, "beside a stray one", stray=1, orders=10) == 1
    store = site.store()
    shown = Inspector(store, declared={"orders": 50}).resource("orders")
    store.close()
    assert shown.declared == DeclaredLimit(1, by)
    assert f"the smallest declared last: 1, by {by}." in tables.resource(shown)
    for worker, own in ((new, 5), (newest, 50)):
        wait_until(lambda: told(worker, f"{own} here, 1", by), 10, "it is told")  # noqa: B023
        assert told(worker, f"{own} here, 1", by) == 1

    wait_in_force(site, 5, new.hostname)
    new.stop()
    wait_in_force(site, 50, newest.hostname)
    assert most_inside(site, "of 50 again") > 5


def test_an_idle_deployment_bounds_each_key(site: Site) -> None:
    """No task of it ever ran, so no attempt declared anything at a key."""
    idle = deployed(site, 5)
    store = site.store()
    expected = DeclaredLimit(5, idle.hostname)
    wait_until(lambda: store.snapshot("tenants/x").declared == expected, 20, "it declares")
    for key in "xy":
        claims = [Claim("tenants", key, 50)]
        taken = [store.acquire(claims, f"stray {key} {n}") for n in range(31)]
        assert sum(isinstance(each, Permit) for each in taken) == 5
    other = deployed(site, 50)
    store.close()
    at_each_key = "'tenants' at each key"
    wait_until(lambda: told(other, "50 here, 5", idle.hostname, at_each_key), 20, "it is told")
    assert told(other, "50 here, 5", idle.hostname, at_each_key) == 1
