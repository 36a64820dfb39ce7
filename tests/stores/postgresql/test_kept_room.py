"""The room that waits keep (H12): what the short ways and the count of waits rely on."""

from __future__ import annotations

from typing import Any

import pytest

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    parked,
    refused,
)
from tests.conformance.hand_on.kept_room import (
    API,
    DISK,
    PAIR,
    THIRD,
    held_before,
    keeping,
    kept,
)
from tests.conformance.hand_on.kept_room_ends import LASTS
from tests.conformance.sessions.session_calls import S, held
from tests.support.postgres import PostgresServer

from .conftest import OpenAt

LEASE = 600.0  # each call of a tenth is noted, the long way
COLUMN = "SELECT kept FROM celery_semaphore.resource WHERE name = 'api'"
CROWD = """
INSERT INTO celery_semaphore.waiter (id, resource, urgency, place, nonce, state, outbox, kind, weight, resources,
    weights, limits, claims, due, name)
SELECT n, 'disk', 246, n, 'w' || n, (ARRAY['in_line', 'in_transit', 'set_aside'])[n % 3 + 1], false, 'park', 1,
    ARRAY['disk'], ARRAY[1], ARRAY[1], '', 0, '' FROM generate_series(1, {}) AS n
"""
TURN = """
SELECT celery_semaphore.v1_turn_to_keep(
    jsonb_populate_record(NULL::celery_semaphore.waiter, jsonb_build_object(
        'urgency', 246, 'place', 1000000, 'nonce', '', 'weights', %s::bigint[])),
    1, jsonb_populate_record(NULL::celery_semaphore.v1_resource, jsonb_build_object(
        'name', 'disk', 'mean', %s::float8, 'declared', %s::bigint)),
    2, jsonb_populate_record(NULL::celery_semaphore.v1_resource, jsonb_build_object(
        'name', 'api', 'mean', %s::float8, 'declared', %s::bigint)))
"""
READ = """
SELECT sum(pg_stat_get_xact_tuples_returned(indexrelid))
FROM pg_index WHERE indrelid = 'celery_semaphore.waiter'::regclass
"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(server: PostgresServer, open_at: OpenAt, clock: Clock) -> Any:
    store = open_at(server.url, now=clock, lease=LEASE)
    store.ask(S)
    return store


@pytest.mark.parametrize("claims", [API, [*THIRD, *API]], ids=["one", "several"])
def test_a_new_task_finds_it_kept(store: Any, clock: Clock, claims: Any) -> None:
    admitted(store, THIRD, "t")
    store.release("t", THIRD)  # it leaves a free row, as the short way needs it
    keeping(store, clock)
    refusal = refused(store, claims, "later", Wait(Kind.REQUEUE))
    assert (refusal.reason, refusal.claim.semaphore) == (Reason.SATURATED, "api")
    assert (refusal.occupied, refusal.kept) == (0, 1)


def test_a_release_passes_nothing_on_that_is_kept(store: Any, clock: Clock) -> None:
    """An earlier one took the room while it was kept."""
    ticket = keeping(store, clock)
    admitted(store, API, "urgent", Wait(Kind.REQUEUE, priority=10))
    later = held(store, "later", S, API).ticket
    assert not store.release("urgent", API).granted
    store.release("x", DISK)
    assert [each.ticket for each in store.snapshot("api").holders] == [ticket]
    assert store.release(ticket, PAIR).granted == {later.nonce}


def test_two_keep_room_at_one_resource(store: Any, clock: Clock) -> None:
    """What one of them does leaves the room of the other."""
    for holder in "ab":
        admitted(store, claim(2), holder)
    first = parked(store, [*claim(2), *DISK], "first")  # in the line of api: the others have room
    parked(store, [*claim(2), *THIRD], "second")
    admitted(store, DISK, "x")
    admitted(store, THIRD, "t")
    clock.advance(2)
    store.release("a", claim(2))
    store.release("b", claim(2))
    assert kept(store) == [2, 0]
    store.release(first, [*claim(2), *DISK])
    assert kept(store) == [1, 0]
    store.release("t", THIRD)
    assert kept(store) == [0, 0]


def test_its_end_is_noted_when_it_is_kept(store: Any, clock: Clock) -> None:
    """Nothing else is due before the lease ends; the release hands on in one call, for it names all claims."""
    two = claim(2, of="disk")
    admitted(store, [*API, *two], "a")
    admitted(store, two, "x")
    held(store, "pair", S, [*API, *claim(2, of="disk", weight=2)])
    clock.advance(2)
    store.release("a", [*API, *two])
    assert kept(store) == [1, 0]
    later = held(store, "later", S, API).ticket
    clock.advance(5)  # a second, and twice a turn of two seconds
    store.reap()
    assert [each.ticket for each in store.snapshot("api").holders] == [later]


def test_what_it_keeps_no_more_is_tried_once_more(store: Any, clock: Clock) -> None:
    """The hand-on has come past that resource: a release names it first."""
    heavy = claim(2, weight=2)
    held_before(store, clock, claim(2), 3.0)  # permits come more slowly than those of disk
    held_before(store, clock, DISK, 1.0)
    admitted(store, [*claim(2), *DISK], "x")
    admitted(store, claim(2), "a")
    clock.advance(2)
    pair = [*claim(2), *DISK, *THIRD]
    held(store, "pair", S, pair)
    store.release("a", claim(2))
    assert kept(store, "api", "third") == [1, 1]
    clock.advance(0.001)
    later = held(store, "later", S, heavy).ticket
    store.pause("third")
    assert store.release("x", [*claim(2), *DISK]).granted == {later.nonce}
    assert kept(store, "api", "third") == [0, 0]


def test_what_is_over_goes_with_the_next_long_way(
    store: Any, server: PostgresServer, clock: Clock
) -> None:
    keeping(store, clock)
    clock.advance(LASTS)
    assert server.run(COLUMN) != [(None,)]
    admitted(store, API, "b")
    assert server.run(COLUMN) == [(None,)]


def test_a_delivery_beside_its_own_run_ends_it(store: Any, clock: Clock) -> None:
    """A9 and A20: its task runs already, so its wait is over."""
    ticket = keeping(store, clock)
    admitted(store, API, "pair:2", Wait(Kind.REQUEUE, priority=3))
    again = MessageId("pair", redelivered=True)
    answer = store.acquire(PAIR, "pair:3", came_back(ticket, Kind.PARK), again)
    assert answer.reason is Reason.RUNNING
    assert kept(store) == [0, 0]


@pytest.mark.parametrize("idle", [63, 80])
def test_a_resource_stays_as_long_as_its_room_is_kept(
    server: PostgresServer, open_at: OpenAt, clock: Clock, idle: int
) -> None:
    """It has been idle for ten leases, and goes a second later or is gone; else a new task would be admitted there."""
    store: Any = open_at(server.url, now=clock, lease=6.0, take_up=6.0)
    admitted(store, API, "a")
    store.release("a", API)
    permits = [admitted(store, DISK, "x"), admitted(store, THIRD, "t")]
    server.run("UPDATE celery_semaphore.resource SET mean = NULL")
    parked(store, [*DISK, *API, *THIRD], "pair")
    for _ in range(idle):
        clock.advance(1)
        store.renew(permits)
        store.reap()
    assert len(server.run(COLUMN)) == (idle < 64)  # the last window of its limit ended after 4 s
    store.release("x", DISK)
    clock.advance(2)
    assert not store.reap()
    assert kept(store, "api", "third") == [1, 0]
    assert refused(store, API, "later").kept == 1


@pytest.mark.parametrize("waits", [0, 3, 40])
@pytest.mark.parametrize("mean", [0.0, 1e-300, 0.1, 1 / 3, 999_999.7])
@pytest.mark.parametrize("limit", [1, 3, 10**15])
def test_its_turn_is_counted_as_far_as_it_matters(
    server: PostgresServer, waits: int, mean: float, limit: int
) -> None:
    """Compare it with the time that permits are held where the room is: as in memory, to the last bit."""
    server.run(CROWD.format(3 * waits))  # a third of them in line
    turn = (waits + 2) * mean / limit
    with server.client() as client:
        for here in (0.0, turn / 2 * (1 - 1e-15), turn / 2, turn / 2 * (1 + 1e-15), turn, 1e18):
            ((found,),) = client.execute(TURN, [[2, 1], mean, limit, here, 1]).fetchall()
            sooner = 2 * mean > 2 * here * limit
            assert found == (turn if turn <= 2 * here and not sooner else None)


@pytest.mark.parametrize(
    ("there", "here", "turn"),
    [(None, None, 1e6), (2e6, None, 2e6), (None, 3e6, 3e6), (0.0, None, 0.0), (None, 0.0, 0.0)],
)
def test_the_mean_of_the_other_resource_counts_where_none_is_known(
    server: PostgresServer, there: float | None, here: float | None, turn: float
) -> None:
    with server.client() as client:
        assert client.execute(TURN, [[1, 1], there, 1, here, 1]).fetchall() == [(turn,)]


@pytest.mark.parametrize(
    ("weights", "limit_there", "here", "limit_here", "turn"),
    [
        ([3, 2], 3, 2e6, 8, 1e6),
        ([3, 2], 3, 2e6, 9, None),
        ([4, 2], 3, 2e6, 8, None),
        ([3, 1], 3, 2e6, 8, None),
        ([2, 3], 3, 2e6, 18, 2e6 / 3),
        ([2, 3], 3, 2e6, 19, None),
        ([3, 2], 2, 2e6, 8, None),
        ([3, 2], 3, 2e6 - 1, 8, None),
    ],
)
def test_room_is_kept_where_permits_do_not_come_much_sooner(
    server: PostgresServer,
    weights: list[int],
    limit_there: int,
    here: float,
    limit_here: int,
    *,
    turn: float | None,
) -> None:
    """Twice as often at most for what the wait needs; where it is refused, permits are held for 1 s."""
    with server.client() as client:
        given = [weights, 1e6, limit_there, here, limit_here]
        assert client.execute(TURN, given).fetchall() == [(turn,)]


def test_a_long_line_is_not_counted_to_its_end(server: PostgresServer) -> None:
    # The planner steps over rows that earlier tests deleted at either end of an index: they would count as read.
    server.run(CROWD.format(3_000), "VACUUM celery_semaphore.waiter")
    with server.client() as client, client.transaction():  # what others read is not in it
        client.execute("SET enable_seqscan = off; SET enable_sort = off")
        assert client.execute(TURN, [[1, 1], 1e6, 10, 1e6, 1]).fetchall() == [(None,)]
        ((read,),) = client.execute(READ).fetchall()
    assert 0 < read < 100
