"""Sessions where many wait, where a resource or a row is busy, and what a question reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from psycopg import Connection
from psycopg.rows import TupleRow

from celery_semaphore.core.session import GRANT_S, HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.grants import messages
from tests.conformance.suite import LEASE, TAKE_UP
from tests.support.postgres import PostgresServer

from .conftest import OpenAt

S, T = "worker-1", "worker-2"
MANY = 40_000
DEAD = 2500  # more than one call sends off
LIMITED = claim()
LINE = """
INSERT INTO celery_semaphore.waiter
    (id, resource, urgency, place, nonce, state, outbox, kind, weight, own_limit, resources, weights, limits, claims, due,
     name, session, epoch)
SELECT celery_semaphore.v1_wait_id('n' || n), 'api', 255, n, 'n' || n, 'in_line', false, 'requeue', 1, 1, '{api}', '{1}',
    '{1}', '', 0, '', '%s', coalesce((SELECT e.id FROM celery_semaphore.epoch AS e), 0)
FROM generate_series(1, %d) AS n
"""
RELEASE = "v1_release({call}, 'a', '', NULL, 0, '{{api}}')"
CALL = f"'({{now}},{LEASE * 1_000_000:.0f},{TAKE_UP * 1_000_000:.0f},,5000)'"
READ = b"""
SELECT sum(pg_stat_get_xact_blocks_fetched(oid))
FROM pg_class
WHERE relnamespace = 'celery_semaphore'::regnamespace AND relkind IN ('r', 'i')
"""


@pytest.fixture
def store(server: PostgresServer, open_at: OpenAt, clock: Clock) -> Any:
    return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP, timeout=1.0)


@contextmanager
def busy(server: PostgresServer, statement: str) -> Iterator[None]:
    """Hold what this statement locks."""
    with server.client() as client, client.transaction():
        client.execute(statement.encode())
        yield


def held(store: Any, holder: str, session: str = S) -> HeldWait:
    ticket = refused(store, LIMITED, holder, Wait(Kind.REQUEUE, session=session)).ticket
    assert ticket
    return HeldWait(ticket, tuple(LIMITED))


def nonces(*waits: HeldWait) -> frozenset[str]:
    return frozenset(wait.ticket.nonce for wait in waits)


def what_it_brings(clock: Clock) -> str:
    return CALL.format(now=round(clock.now * 1_000_000))


def blocks_fetched(client: Connection[TupleRow]) -> int:
    ((found,),) = client.execute(READ).fetchall()
    return int(found)


def pages(server: PostgresServer, clock: Clock, call: str) -> int:
    """Count the pages of our relations that this call reads.

    Those of the catalogs say nothing: they are read again whenever a table was analyzed meanwhile.
    """
    server.run("VACUUM (ANALYZE) celery_semaphore.waiter")  # of what other tests left
    with server.client() as client, client.transaction():  # counts are passed on between two
        before = blocks_fetched(client)
        client.execute(
            f"SELECT celery_semaphore.{call}".format(call=what_it_brings(clock)).encode()
        )
        return blocks_fetched(client) - before


def test_many_of_a_dead_session_are_sent_off_by_one_release(
    server: PostgresServer, store: Any, clock: Clock
) -> None:
    """In several calls: others wait for each."""
    store.ask(S)
    admitted(store, LIMITED, "a")
    server.run(LINE % (S, DEAD))
    parked(store, LIMITED, "b")
    store.sleep(S)
    assert messages(store.take(store.release("a", LIMITED).outgoing)) == [b"b"]
    assert store.snapshot("api").waiting == DEAD


@pytest.mark.parametrize("call", ["refuse", "release"])
def test_of_a_dead_session_one_call_sends_off_a_thousand(
    server: PostgresServer, store: Any, clock: Clock, call: str
) -> None:
    admitted(store, claim(2) if call == "refuse" else LIMITED, "a")
    server.run(LINE % (S, DEAD))
    if call == "refuse":
        refused(store, claim(2), "b")
    else:
        pages(server, clock, RELEASE)
    in_transit = "SELECT count(*) FROM celery_semaphore.waiter WHERE state = 'in_transit'"
    assert server.run(in_transit) == [(1000,)]


def test_those_of_a_paused_resource_are_sent_off(server: PostgresServer, store: Any) -> None:
    store.set_limit(0, "api")
    server.run(LINE % (S, DEAD))
    store.release("nobody", LIMITED)
    lines = "SELECT state, count(*) FROM celery_semaphore.waiter GROUP BY state"
    assert server.run(lines) == [("in_transit", DEAD)]


def test_a_stuck_resource_keeps_no_session_from_asking(server: PostgresServer, store: Any) -> None:
    store.ask(S)
    admitted(store, LIMITED, "a")
    first, second = held(store, "b"), held(store, "c")
    store.release("a", LIMITED)
    with busy(server, "SELECT pg_advisory_xact_lock(celery_semaphore.v1_lock_key('api'))"):
        reply = store.ask(S, to_forecast=[second])
        assert (reply.granted, frozenset(reply.expected)) == (nonces(first), nonces(second))
        assert store.ask(S, begun=[first]).granted == nonces(first)
        assert not store.ask(S).slept


def test_a_session_that_asks_just_now_is_not_put_to_sleep(
    server: PostgresServer, store: Any, clock: Clock
) -> None:
    """Nor does anything wait for it."""
    store.ask(S)
    admitted(store, LIMITED, "a")
    held(store, "b")
    store.release("a", LIMITED)
    clock.advance(GRANT_S)
    with busy(server, "SELECT FROM celery_semaphore.session FOR UPDATE"):
        store.reap()
    held_now = "SELECT count(*) FROM celery_semaphore.permit WHERE holder IS NOT NULL"
    assert server.run(held_now) == [(0,)]
    assert not store.ask(S).slept


def test_sessions_that_ended_are_forgotten(
    server: PostgresServer, store: Any, clock: Clock
) -> None:
    """Likewise those of a clock that stepped back."""
    for n in range(20):
        store.ask(f"dead-{n}")
    clock.advance(10 * LEASE)
    store.ask("ahead")
    clock.advance(-5 * LEASE)
    assert store.ask(S).sessions == 1
    assert server.run("SELECT name FROM celery_semaphore.session") == [(S,)]


def test_a_far_turn_is_told_as_far(server: PostgresServer, store: Any, clock: Clock) -> None:
    """Else each question would count the whole line."""
    store.ask(S)
    admitted(store, LIMITED, "a")
    server.run(LINE % (S, MANY))
    last = HeldWait(Ticket(f"n{MANY}", 0, MANY), tuple(LIMITED))
    near = HeldWait(Ticket("n7", 0, 7), tuple(LIMITED))
    expected = {f"n{MANY}": 101.0, "n7": 7.0}
    assert store.ask(S, to_forecast=[last, near]).expected == expected
    for nonce in ("n7", f"n{MANY}"):
        ask = f"v1_ask({{call}}, '{S}', NULL, '{{{{}}}}', '{{{{}}}}', '{{{{{nonce}}}}}', '{{{{api}}}}')"
        assert pages(server, clock, ask) < 100


def test_a_near_place_is_counted_up_to_it(server: PostgresServer, store: Any, clock: Clock) -> None:
    """Whoever is refused there learns it."""
    admitted(store, LIMITED, "a")
    server.run(LINE % (S, MANY))
    near = "v1_position('api', ROW(255, 7, 'n7')::celery_semaphore.v1_ticket)"
    assert pages(server, clock, near) < 100


@pytest.mark.parametrize("message", ["NULL", "'by the long way'"])
def test_a_release_reads_no_line(
    server: PostgresServer, store: Any, clock: Clock, message: str
) -> None:
    """To know that the first in line is the first."""
    store.ask(S)
    admitted(store, LIMITED, "a")
    server.run(LINE % (S, MANY))
    assert pages(server, clock, RELEASE.replace("NULL", message)) < 250
    assert store.ask(S).granted == {"n1"}


def test_one_that_sleeps_is_passed_without_a_look_at_those_behind(
    server: PostgresServer, store: Any, clock: Clock
) -> None:
    """Of 1,000 every other one is awake."""
    store.ask("s0")
    admitted(store, LIMITED, "a")
    server.run(LINE % ("s' || n % 2 || '", 1000))
    assert pages(server, clock, RELEASE) < 500
    assert store.ask("s0").granted == {"n2"}


def test_the_dead_are_found_by_an_index_although_the_table_was_empty(
    server: PostgresServer, store: Any, clock: Clock
) -> None:
    """A connection keeps the plans that it made then."""
    store.ask(T)
    release = f"SELECT celery_semaphore.{RELEASE}".format(call=what_it_brings(clock)).encode()
    server.run(LINE % (S, 40))
    server.run("DELETE FROM celery_semaphore.waiter")
    server.run("ANALYZE celery_semaphore.waiter")
    with server.client() as client:
        client.autocommit = True
        for _ in range(10):
            server.run(LINE % (S, 3))
            client.execute(release)
            server.run("DELETE FROM celery_semaphore.waiter")
        server.run(LINE.replace("'api', 255", "'disk', 255") % (T, MANY))
        server.run(LINE.replace("'n' || n)", "'d' || n)") % (S, 1000))
        with client.transaction():
            before = blocks_fetched(client)
            client.execute(release)
            assert blocks_fetched(client) - before < 40_000


def test_a_question_reads_no_line(server: PostgresServer, store: Any, clock: Clock) -> None:
    store.ask(S)
    admitted(store, LIMITED, "a")
    server.run(LINE % (S, MANY))
    store.release("a", LIMITED)
    assert store.ask(S).granted == {"n1"}
    ask = f"v1_ask({{call}}, '{S}', NULL, '{{{{}}}}', '{{{{}}}}', '{{{{}}}}', '{{{{}}}}')"
    assert pages(server, clock, ask) < 100
