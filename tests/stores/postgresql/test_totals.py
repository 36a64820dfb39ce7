"""What counting for metrics reads of a database, and which rights it needs."""

from collections.abc import Iterator
from typing import Any

import pytest

from celery_semaphore.core.store import TOTALLED
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.suite import LEASE, TAKE_UP
from tests.support.postgres import PostgresServer

from .conftest import OpenAt
from .test_sessions import CALL, LINE, MANY, busy, pages

SESSION = "worker-1"
LIMITED = claim()
TOTALS = "v1_totals({{call}}, '{{{{{names}}}}}')"
PAGES_OF_A_KEY = 20  # with two holders and no wait
OUTGOING = "SELECT granted, outbox FROM celery_semaphore.v1_totals({call}, '{{api}}')"
HELD = """
INSERT INTO celery_semaphore.permit
    (resource, row_no, holder, granted, weight, token, last, since, ends, epoch, restored)
SELECT 'of/' || n, r, 'holder-' || r, false, 1, 1, 1, 1, 9000000000000000, 1, false
FROM generate_series(1, %d) AS n, generate_series(0, 1) AS r
"""


@pytest.fixture
def store(server: PostgresServer, open_at: OpenAt, clock: Clock) -> Any:
    return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP, timeout=2.0)


@pytest.fixture
def reader(server: PostgresServer) -> Iterator[str]:
    """The URL of a role that may read, and nothing else."""
    server.run(
        "CREATE ROLE reader LOGIN",
        "GRANT USAGE ON SCHEMA celery_semaphore TO reader",
        "GRANT SELECT ON ALL TABLES IN SCHEMA celery_semaphore TO reader",
    )
    yield server.database("postgres", user="reader")
    server.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_key_without_waits_is_read_alone(
    server: PostgresServer, store: Any, clock: Clock
) -> None:
    """However long the line of another one is, and however many keys there are."""
    server.run(HELD % (4 * TOTALLED))
    server.run(LINE % (SESSION, MANY))
    server.run("ANALYZE celery_semaphore.permit")
    names = [f"of/{n}" for n in range(1, TOTALLED + 1)]
    assert {each.held for each in store.totals(names)} == {2}
    call = TOTALS.format(names=",".join(names))
    assert pages(server, clock, call) < PAGES_OF_A_KEY * TOTALLED


def test_a_line_is_read_once(server: PostgresServer, store: Any, clock: Clock) -> None:
    server.run(LINE % (SESSION, MANY))
    assert store.totals(["api"])[0].reachable == MANY
    read = pages(server, clock, TOTALS.format(names="api"))
    size = "SELECT sum(relpages) FROM pg_class WHERE relname LIKE 'waiter%'"
    ((largest,),) = server.run(size)
    assert read < largest


def test_it_waits_for_no_lock(server: PostgresServer, store: Any) -> None:
    admitted(store, LIMITED, "a")
    parked(store, LIMITED, "b")
    with busy(server, "SELECT pg_advisory_xact_lock(celery_semaphore.v1_lock_key('api'))"):
        assert store.totals(["api"])[0].waiting == 1
    with busy(server, "UPDATE celery_semaphore.permit SET ends = 0"):
        assert store.totals(["api"])[0].held == 1


def test_who_may_only_read_can_count(
    store: Any, open_at: OpenAt, clock: Clock, reader: str
) -> None:
    store.ask(SESSION)
    admitted(store, claim(2), "a")
    admitted(store, claim(2), "b")
    parked(store, claim(2), "c")
    refused(store, claim(2), "d", Wait(Kind.REQUEUE, session=SESSION))
    store.release("a", claim(2))
    store.set_limit(1, "api")
    watching = open_at(reader, now=clock, lease=LEASE, take_up=TAKE_UP)
    assert watching.totals(["api", "disk"]) == store.totals(["api", "disk"])


def test_it_writes_nothing(server: PostgresServer, store: Any, clock: Clock) -> None:
    admitted(store, LIMITED, "a")
    parked(store, LIMITED, "b")
    store.release("a", LIMITED)
    clock.advance(2 * LEASE)
    call = CALL.format(now=round(clock.now * 1_000_000))
    with server.client() as client, client.transaction():
        client.execute("SET TRANSACTION READ ONLY")
        found = client.execute(OUTGOING.format(call=call).encode()).fetchall()
        assert found == [(0, 1)]
        assert client.execute("SELECT pg_current_xact_id_if_assigned()").fetchall() == [(None,)]
