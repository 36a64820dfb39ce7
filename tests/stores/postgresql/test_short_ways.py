"""The short ways through acquire and release leave what the long ones leave: the same calls on two databases."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.testing.clock import Clock
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.variants import also

from ..conftest import refusal_of
from ..life import API, DISK, LEASE, TAKE_UP, Life, Side, or_other_claims
from .conftest import OpenAt

# In which row a permit is does not matter, nor what a free one remembers. Of kept room the first column has its end.
EVERY_ROW = """
    SELECT 'permit', p::text FROM (
        SELECT resource, holder, granted, urgency, place, weight, token, since, ends, epoch, restored,
            again IS NOT DISTINCT FROM holder
        FROM celery_semaphore.permit WHERE holder IS NOT NULL
    ) AS p
    UNION ALL SELECT 'waiter', w::text FROM celery_semaphore.waiter AS w
    UNION ALL SELECT 'message', m::text FROM celery_semaphore.message AS m
    UNION ALL SELECT 'released', d::text FROM celery_semaphore.released AS d
    UNION ALL SELECT 'resource', r::text FROM (
        SELECT name, declared, declared_before, declared_until, declared_by, declared_before_by, reap_at, mean,
            mean_samples, latest, too_heavy_above
        FROM celery_semaphore.resource
    ) AS r
    UNION ALL SELECT room.ends::text, r.name || room FROM celery_semaphore.resource AS r, unnest(r.kept) AS room
    UNION ALL SELECT 'session', s::text FROM (SELECT name, asked FROM celery_semaphore.session) AS s
    UNION ALL SELECT 'decision', d::text FROM celery_semaphore.decision AS d
    UNION ALL SELECT 'epoch', e::text FROM (SELECT id, created, grace_until FROM celery_semaphore.epoch) AS e
"""
CRASH = b"""
WITH e AS (DELETE FROM celery_semaphore.epoch), s AS (DELETE FROM celery_semaphore.session)
DELETE FROM celery_semaphore.released
"""
# Else what is over would be deleted at random, and be there again when the clock steps back.
NEVER_FORGET = """
CREATE OR REPLACE FUNCTION celery_semaphore.v1_delete_tombstones(_now bigint) RETURNS void LANGUAGE sql AS '';
"""
CLAIM = Claim("api", "eu", 1)
BOTH = [CLAIM, Claim(DISK, None, 1)]
# What each function calls where it has no short way.
LONG = {
    "v1_acquire": "v1_acquire_slow_path(_call, _a)",
    "v1_release": "v1_release_slow_path(_call, _holder, _task, _message, _remember, _resources)",
}


class Course:
    """The same calls on both sides, one after the other."""

    def __init__(self, sides: tuple[Side, Side], clock: Clock) -> None:
        self.life = Life(sides, clock, random.Random(0))
        self.clock = clock

    def acquire(
        self,
        holder: str,
        ticket: Ticket | None = None,
        limit: int | None = 1,
        weight: int = 1,
        session: str = "one",
    ) -> Any:
        wait = Wait(Kind.REQUEUE, ticket=ticket, session=session)
        claims = [Claim("api", "eu", limit, weight)]
        return self.call(lambda store: store.acquire(claims, holder, wait), f"acquire {holder}")

    def acquire_both(self, holder: str, disk: int = 1) -> Any:
        both = [Claim("api", "eu", 2), Claim(DISK, None, disk)]
        wait = Wait(Kind.REQUEUE, session="one")
        return self.call(lambda store: store.acquire(both, holder, wait), f"acquire both {holder}")

    def release_both(self, holder: str) -> None:
        self.call(lambda store: store.release(holder, BOTH), f"release both {holder}")

    def refused(self, holder: str, limit: int = 1, weight: int = 1) -> Ticket:
        ticket: Ticket = self.acquire(holder, limit=limit, weight=weight).ticket
        return ticket

    def release(self, holder: str) -> None:
        self.call(lambda store: store.release(holder, [CLAIM]), f"release {holder}")

    def go_on(self, seconds: float, *permits: Permit) -> None:
        """Let so much time pass in which these permits are renewed."""
        for _ in range(10):
            self.clock.advance(seconds / 10)
            self.call(lambda store: store.renew(permits), "renew")

    def forget(self) -> None:
        """The server lost what it does not write down, and noticed it."""
        for side in self.life.sides:
            side.crash()
        self.awake()

    def awake(self) -> None:
        self.call(lambda store: store.ask("one"), "ask")

    def call(self, question: Callable[[Any], Any], said: str) -> Any:
        answer = self.life.ask(question, said)
        self.life.check(said)
        return answer


@pytest.fixture
def sides(server: PostgresServer, open_at: OpenAt) -> Callable[[Clock], tuple[Side, Side]]:
    return lambda clock: (
        side(server, open_at, clock),
        side(server, open_at, clock, short=False),
    )


def side(server: PostgresServer, open_at: OpenAt, clock: Clock, *, short: bool = True) -> Side:
    name = f"side-{os.urandom(4).hex()}"
    url = server.add_database(name)
    server.install(name)
    server.run(NEVER_FORGET, database=name)
    for function, long in () if short else LONG.items():
        source = f"SELECT pg_get_functiondef('celery_semaphore.{function}'::regproc)"
        [(text,)] = server.run(source, database=name)
        head, body = text.split("\nBEGIN\n", 1)
        only = f"{head}\nBEGIN\nRETURN celery_semaphore.{long};\n{body}"
        server.run(only, database=name)
    client = server.client(name)
    return Side(
        open_at(url, now=clock, lease=LEASE, take_up=TAKE_UP),
        lambda: client.execute(EVERY_ROW.encode()).fetchall(),
        lambda: server.forget(name),
        lambda: client.execute(CRASH),
    )


@pytest.mark.parametrize("calls", [1_000, *also(2_500)])
def test_they_leave_the_same(
    server: PostgresServer, sides: Callable[[Clock], tuple[Side, Side]], calls: int
) -> None:
    clock = Clock()
    life = Life(sides(clock), clock, random.Random(server.name))
    for _ in range(calls):
        life.go_on()


@pytest.fixture
def course(sides: Callable[[Clock], tuple[Side, Side]]) -> Course:
    clock = Clock()
    course = Course(sides(clock), clock)
    course.awake()
    return course


@pytest.mark.parametrize("claims", [[CLAIM], BOTH], ids=["one", "two"])
def test_which_calls_take_them(
    server: PostgresServer, open_at: OpenAt, claims: list[Claim]
) -> None:
    """A permit where none waits, a refusal where all are taken, and a release."""
    name = f"short-{os.urandom(4).hex()}"
    store = open_at(
        server.add_database(name), lease=60.0
    )  # each call of a tenth is noted, the long way
    server.install(name)
    for holder in ("first", "second"):  # of a new resource, and with the rows of that one
        assert isinstance(store.acquire(claims, holder), Permit)
        store.release(holder, claims)
    for function in ("acquire", "release"):
        source = f"SELECT pg_get_functiondef('celery_semaphore.v1_{function}_slow_path'::regproc)"
        [(text,)] = server.run(source, database=name)
        server.run(
            text.replace("\nBEGIN\n", "\nBEGIN\nRAISE EXCEPTION 'the long way';\n", 1),
            database=name,
        )
    assert isinstance(store.acquire(claims, "third"), Permit)
    assert (
        refusal_of(store.acquire(claims, "fourth", Wait(Kind.REQUEUE))).reason is Reason.SATURATED
    )
    server.run("DELETE FROM celery_semaphore.waiter", database=name)
    store.release("third", claims)


def test_one_comes_to_wait_while_several_are_released(
    server: PostgresServer, open_at: OpenAt
) -> None:
    """The release looked for waits before it got the lock, and there was none."""
    name = f"short-{os.urandom(4).hex()}"
    store = open_at(server.add_database(name))
    server.install(name)
    store.ask("one")
    assert isinstance(store.acquire(BOTH, "a"), Permit)
    wait = Wait(Kind.REQUEUE, session="one")
    ticket = refusal_of(store.acquire(BOTH, "b", wait)).ticket
    assert ticket
    with server.client(name) as client, ThreadPoolExecutor(1) as thread:
        client.execute("CREATE TABLE kept AS TABLE celery_semaphore.waiter")
        client.execute("DELETE FROM celery_semaphore.waiter")
        with client.transaction():
            client.execute("SELECT celery_semaphore.v1_lock(ARRAY['disk'])")
            released = thread.submit(store.release, "a", BOTH)
            wait_until(
                lambda: server.run("SELECT 1 FROM pg_locks WHERE NOT granted", database=name),
                10,
                "it waits for the lock",
            )
            client.execute("INSERT INTO celery_semaphore.waiter TABLE kept")
        released.result(10)
    assert ticket.nonce in store.ask("one").granted


def test_no_limit_is_known(course: Course) -> None:
    course.call(lambda store: store.set_limit(1, API), "limit")
    assert isinstance(course.acquire("a", limit=None), Permit)
    course.release("a")
    course.call(lambda store: store.set_limit(None, API), "no limit")
    assert not isinstance(course.acquire("b", limit=None), Permit)


def test_several_of_which_all_have_room(course: Course) -> None:
    for holder in ("a", "b"):
        assert isinstance(course.acquire_both(holder), Permit)
        course.release_both(holder)
    course.acquire("c", limit=2)
    assert isinstance(course.acquire_both("d"), Permit)
    course.release_both("d")
    course.release_both("d")


def test_several_of_which_one_is_full(course: Course) -> None:
    course.acquire_both("a")
    course.acquire_both("b")  # by the second
    course.acquire("c", limit=2)
    course.acquire_both("d")  # by the first, where none waits
    course.acquire_both("e", disk=2)
    course.release_both("a")
    course.release("c")


def test_several_of_which_one_has_a_wait(course: Course) -> None:
    course.acquire_both("a")
    course.release_both("a")
    course.acquire("too heavy", limit=2, weight=3)
    assert isinstance(course.acquire_both("b"), Permit)
    course.release_both("b")


def test_several_of_which_one_has_another_limit(course: Course) -> None:
    for disk, holder in ((2, "a"), (2, "b"), (1, "c")):
        course.acquire_both(holder, disk=disk)
    course.release_both("a")


def test_several_beside_a_dead_permit(course: Course) -> None:
    course.acquire_both("dead", disk=2)
    course.clock.advance(LEASE / 2)
    course.acquire_both("a", disk=2)
    course.clock.advance(LEASE / 2 + 0.1)
    course.awake()
    course.acquire_both("b", disk=2)
    course.release_both("a")


def test_several_of_which_one_was_released(course: Course) -> None:
    course.acquire_both("a")
    course.release("a")
    course.acquire_both("a")
    course.release_both("a")


def test_several_of_which_one_is_paused(course: Course) -> None:
    course.acquire_both("a")
    course.release_both("a")
    course.call(lambda store: store.pause(DISK, 30.0), "pause")
    course.acquire_both("b")


@pytest.mark.parametrize("full", [False, True])
def test_one_that_waits_elsewhere(course: Course, *, full: bool) -> None:
    """A19: it lost its answer, and its task has changed since; whether there is room for that or not."""
    course.acquire_both("a")
    course.release_both("a")
    course.acquire("b")
    course.refused("c")
    disk, wait = [Claim(DISK, None, 1)], Wait(Kind.REQUEUE, session="one")
    for holder in ("d", "c") if full else ("c",):
        answer = course.call(
            lambda store: or_other_claims(store.acquire, disk, holder, wait),  # noqa: B023
            f"acquire {holder}",
        )
    assert answer == (CLAIM,)


def granted(course: Course) -> Ticket:
    """The ticket of "b", to which the permit of "a" was granted."""
    course.acquire("a")
    ticket = course.refused("b")
    course.release("a")
    return ticket


def test_a_grant_that_ended(course: Course) -> None:
    ticket = granted(course)
    course.clock.advance(GRANT_S + 0.1)
    course.awake()
    assert isinstance(
        course.acquire("b", ticket), Permit
    )  # another one: it was dropped, and is free


def test_a_grant_after_the_clock_stepped_back(course: Course) -> None:
    course.acquire("a", limit=2)
    course.acquire("other", limit=2)
    ticket = course.refused("b", limit=2)
    course.release("a")
    course.clock.advance(-100)
    course.acquire("b", ticket, limit=2)


def test_a_grant_of_one_who_holds_a_permit(course: Course) -> None:
    course.acquire("a", limit=2)
    course.acquire("other", limit=2)
    ticket = course.refused("b", limit=2)
    course.release("a")
    assert isinstance(course.acquire("other", ticket, limit=2), Permit)


def test_a_release_after_the_clock_stepped_back(course: Course) -> None:
    course.acquire("a", limit=2)
    course.acquire("other", limit=2)
    course.refused("b", limit=2)
    course.clock.advance(-100)
    course.awake()
    course.release("a")


def test_a_release_where_one_was_set_aside(course: Course) -> None:
    course.acquire("a", limit=2, weight=2)
    course.refused("too heavy", limit=2, weight=3)
    ticket = course.refused("b", limit=2, weight=2)
    course.release("a")
    course.acquire("b", ticket, limit=2, weight=2)
    course.clock.advance(0.1)
    course.refused("c", limit=3, weight=3)
    course.release("b")


def test_a_release_under_two_limits(course: Course) -> None:
    """The one of the key is in force, and is lower than what is held."""
    course.acquire("a", limit=2)
    course.acquire("other", limit=2)
    course.refused("b", limit=2)
    course.call(lambda store: store.set_limit(2, "api"), "limit")
    course.call(lambda store: store.set_limit(1, API), "limit")
    course.release("a")


def test_a_grant_of_a_permit_that_is_older_than_the_epoch(course: Course) -> None:
    """Of a parked task: it lasts longer than the grace."""
    course.acquire("a")
    wait = Wait(Kind.PARK)
    refused = course.call(lambda store: store.acquire([CLAIM], "b", wait), "acquire b")
    course.call(lambda store: store.attach(refused.ticket, [CLAIM], b"b"), "attach")
    course.release("a")
    course.call(lambda store: store.sent(store.take(frozenset({API}))), "sent")
    course.forget()
    course.clock.advance(LEASE * 2 / 3 + 0.1)
    course.acquire("b", refused.ticket)


def test_a_grant_where_a_wait_ended(course: Course) -> None:
    permits = [course.acquire(holder, limit=2) for holder in ("a", "other")]
    ticket = course.refused("b", limit=2)
    lasts = course.acquire("in transit", limit=2, session="").retry_after + LEASE
    course.go_on(lasts - GRANT_S / 2, *permits)
    course.awake()
    course.release("a")
    course.clock.advance(GRANT_S / 2 + 0.1)
    course.acquire("b", ticket, limit=2)


def test_a_release_where_a_wait_ended(course: Course) -> None:
    permits = [course.acquire(holder, limit=2) for holder in ("a", "other")]
    course.refused("b", limit=2)
    lasts = course.acquire("in transit", limit=2, session="").retry_after + LEASE
    course.go_on(lasts - 0.1, *permits)
    course.awake()
    course.clock.advance(0.2)
    course.release("a")


def test_a_release_beside_a_dead_permit(course: Course) -> None:
    course.acquire("dead", limit=2)
    course.clock.advance(LEASE / 2)
    course.acquire("a", limit=2)
    course.refused("b", limit=2)
    course.clock.advance(LEASE / 2 + 0.1)
    course.awake()
    course.release("a")


def test_a_release_to_a_session_that_sleeps(course: Course) -> None:
    permit = course.acquire("a")
    course.refused("b")
    course.go_on(LEASE + 0.1, permit)
    course.release("a")


def test_a_release_of_one_that_waits_too(course: Course) -> None:
    """It took up the grant of another wait."""
    course.acquire("x")
    ticket = course.refused("b")
    course.clock.advance(0.1)
    course.refused("a")
    course.clock.advance(0.1)
    course.refused("c")
    course.release("x")
    assert isinstance(course.acquire("a", ticket), Permit)
    course.release("a")


def test_a_release_in_the_grace(course: Course) -> None:
    course.acquire("a")
    course.refused("b")
    course.forget()
    course.release("a")
