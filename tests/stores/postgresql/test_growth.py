"""No table grows with the number of permits, and what was used once is gone after a while."""

import threading
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.testing.clock import Clock
from tests.conformance.suite import UsedClock
from tests.stores.conftest import claim
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.variants import also

from .conftest import OpenAt

THREADS = 4
LEASE = 0.5
TABLES = ("resource", "permit", "released", "waiter", "message")


def rows(server: PostgresServer) -> dict[str, int]:
    counts = ", ".join(f"(SELECT count(*) FROM celery_semaphore.{name})" for name in TABLES)  # noqa: S608 - ours
    return dict(zip(TABLES, server.run(f"SELECT {counts}")[0], strict=True))


def crowd(target: Any) -> None:
    threads = [threading.Thread(target=target, args=[n]) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_rows_are_used_again(server: PostgresServer, open_at: OpenAt) -> None:
    store = open_at(server.url)
    server.forget_counts()

    def run(thread: int) -> None:
        for n in range(500):
            claims = [Claim("api", str(n % 3), 10)]
            store.acquire(claims, f"{thread}-{n}", Wait(Kind.REQUEUE), MessageId(f"{thread}-{n}"))
            store.release(f"{thread}-{n}", claims)

    crowd(run)
    store.close()  # what a session counted is told at its end
    found = rows(server)
    assert (found["resource"], found["waiter"], found["message"]) == (3, 0, 0)
    assert found["permit"] <= 3 * THREADS
    updates = (
        "SELECT sum(n_tup_upd), sum(n_tup_hot_upd) FROM pg_stat_user_tables"
        " WHERE schemaname = 'celery_semaphore' AND relname IN ('permit', 'resource')"
    )
    wait_until(lambda: (server.run(updates)[0][0] or 0) >= 3 * 4 * 500 - 50)
    ((all_of_them, within_their_page),) = server.run(updates)
    assert float(within_their_page) > 0.95 * float(all_of_them)


def test_a_resource_that_let_nobody_in_is_gone_after_a_while(
    server: PostgresServer, open_at: OpenAt
) -> None:
    clock = Clock()
    store = open_at(server.url, now=clock)
    assert isinstance(store.acquire([Claim("api", None, 2, weight=3)], "a"), Refusal)
    clock.advance(2 * store.lease)
    store.reap()
    assert rows(server)["resource"] == 1
    clock.advance(11 * store.lease)
    store.reap()
    assert rows(server)["resource"] == rows(server)["permit"] == 0


@pytest.mark.parametrize("name", ["order/7", "api"])
def test_a_limit_reads_the_resources_that_it_concerns(
    server: PostgresServer, open_at: OpenAt, name: str
) -> None:
    others = "SELECT 'order/' || n, 9e15 FROM generate_series(1, 20000) AS n"
    server.run(f"INSERT INTO celery_semaphore.resource (name, reap_at) {others}")
    # The planner steps over rows that earlier tests deleted at either end of the index: they would count as read.
    server.run("VACUUM ANALYZE celery_semaphore.resource")
    server.forget_counts()
    store = open_at(server.url)
    store.set_limit(3, name)
    store.close()  # what a session counted is told at its end
    read = (
        "SELECT idx_scan, idx_tup_read FROM pg_stat_user_indexes"
        " WHERE schemaname = 'celery_semaphore' AND indexrelname = 'resource_pkey'"
    )
    wait_until(lambda: server.run(read)[0][0], 5)
    assert server.run(read)[0][1] < 100


@pytest.mark.parametrize("leases", [(30.0, 3000.0), (3000.0, 30.0)])
def test_the_released_are_remembered_for_a_lease_of_their_own(
    server: PostgresServer, open_at: OpenAt, leases: tuple[float, float]
) -> None:
    """Another lease was set since."""
    clock = UsedClock()
    before, after = (open_at(server.url, lease=lease, now=clock) for lease in leases)
    before.acquire(claim(), "a")
    before.release("a", claim())
    clock.advance(min(leases) - 1)
    answer = after.acquire(claim(), "a")
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.RELEASED
    clock.advance(max(leases))
    after.acquire(claim(), "b")
    clock.store = after
    clock.advance(max(leases))
    after.reap()
    assert rows(server)["released"] == 1  # "b", whose lease has ended just now


def test_what_idled_is_looked_at_when_its_next_lease_ends(
    server: PostgresServer, open_at: OpenAt
) -> None:
    clock = UsedClock()
    store = clock.store = open_at(server.url, lease=30.0, now=clock)
    store.acquire(claim(), "a")
    store.release("a", claim())
    clock.advance(30.0)
    store.reap()  # nobody has to come back for ten leases
    store.acquire(claim(), "b")
    clock.advance(30.0)
    store.reap()
    held = "SELECT count(*) FROM celery_semaphore.permit WHERE holder IS NOT NULL"
    assert server.run(held) == [(0,)]


@pytest.mark.parametrize("wanted", [claim() + claim(of="disk"), *also(claim())])
def test_the_released_are_forgotten_where_nobody_reaps(
    server: PostgresServer, open_at: OpenAt, wanted: list[Claim]
) -> None:
    clock = Clock()
    store = open_at(server.url, lease=30.0, now=clock)
    for n in range(2000):
        store.acquire(wanted, f"h{n}")
        store.release(f"h{n}", wanted)
        clock.advance(31.0)
    # One release in a hundred looks. It takes 200 million runs until 1,900 in a row do not.
    assert rows(server)["released"] < 1900 * len(wanted)


@pytest.mark.slow
def test_many_keys_leave_nothing(server: PostgresServer, open_at: OpenAt) -> None:
    store, keys = open_at(server.url, lease=LEASE), 2_000
    wrong: list[Any] = []

    def use(first: int) -> None:
        for n in range(first, keys, THREADS):
            claims = [Claim("order", str(n), 1)]
            answer = store.acquire(claims, f"holder-{n}")
            if not isinstance(answer, Permit):
                wrong.append(answer)
            if n % 100:  # the others died: their lease has to end
                store.release(f"holder-{n}", claims)

    crowd(use)
    assert wrong == []

    def nothing() -> bool:
        store.reap(1000)
        return not any(rows(server).values())

    wait_until(nothing, 30, "nothing is left")
