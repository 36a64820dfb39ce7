"""One wait has one record, whatever an operator does to its priority, and whoever brings its ticket."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from celery_semaphore.core.claim import OtherClaims
from celery_semaphore.core.grant import Grant
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import GRANT_S, HeldWait, Standing
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    named,
    refused,
    requeued,
)
from tests.conformance.grants import released
from tests.conformance.suite import LEASE, TAKE_UP
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until

from .conftest import OpenAt

CALL = Wait(Kind.BLOCK, shortest=LEASE / 3, longest=LEASE / 3, session="s")
PARK = Wait(Kind.PARK)
DISK = claim(of="disk")
Opened = tuple[Any, Clock]


@pytest.fixture
def opened(server: PostgresServer, open_at: OpenAt) -> Opened:
    clock = Clock()
    return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP), clock


def waiting(opened: Opened, *holders: str) -> list[Ticket]:
    """Tickets of messages that are parked behind "a", one after the other."""
    store, clock = opened
    admitted(store, claim(), "a")
    tickets = []
    for holder in holders:
        clock.advance(1)
        tickets.append(named(store, holder))
    return tickets


def sent(store: Any, holder: str = "a") -> Grant:
    """What a release hands on, when the broker has its message."""
    (grant,) = released(store, holder, claim())
    store.sent([grant])
    return grant


def waits(store: Any) -> list[Ticket]:
    return [each.ticket for each in store.snapshot("api").waiters]


def holders(store: Any) -> list[tuple[str | Ticket, bool]]:
    """Who has a permit, or the ticket that has a grant: the grants first."""
    found = [(held.ticket or held.holder, held.granted) for held in store.snapshot("api").holders]
    return sorted(found, key=lambda each: (not each[1], str(each[0])))


def test_the_holder_that_made_it_may_hold_beside_its_grant(opened: Opened) -> None:
    """The same delivery came back as that holder, for other claims."""
    store, _ = opened
    (ticket,) = waiting(opened, "b")
    store.set_limit(2, "api")
    sent(store)
    permit = admitted(
        store, claim() + DISK, "b", came_back(Ticket("other", 0, 1_700_000_000_000_000))
    )
    assert holders(store) == [(ticket, True), ("b", False)]
    assert [str(each) for each in store.renew([permit]).values()] == ["ok"]
    store.release("b", claim() + DISK)
    assert holders(store) == [(ticket, True)]
    store.release(ticket, claim())
    assert holders(store) == []


def test_a_grant_outlives_the_holder_that_made_it(opened: Opened) -> None:
    """Whose worker makes sure that it has no permit, while its message is on its way."""
    store, _ = opened
    first, second = waiting(opened, "b", "c")
    sent(store)
    store.release("b", claim())
    store.release("c", claim())
    assert (holders(store), waits(store)) == ([(first, True)], [second])


@pytest.mark.parametrize("name", ["%grant.b", "grant.b", "%25grant.b"])
def test_a_holder_that_is_named_like_a_grant(opened: Opened, name: str) -> None:
    store, _ = opened
    (ticket,) = waiting(opened, "b")
    store.set_limit(2, "api")
    sent(store)
    admitted(store, claim(), name)
    store.release(name, claim())
    assert holders(store) == [(ticket, True)]


@pytest.mark.parametrize("claims", [claim(), claim() + DISK], ids=["one", "several"])
def test_a_holder_finds_its_grant_without_its_ticket(opened: Opened, claims: Any) -> None:
    """Where nobody waits and there is room for another, too."""
    store, _ = opened
    store.set_limit(2, "api")
    store.set_limit(2, "disk")
    for holder in "ad":
        admitted(store, claims, holder)
    named(store, "b", claims=claims)
    (grant,) = released(store, "a", claims)
    store.sent([grant])
    store.release("d", claims)
    assert admitted(store, claims, "b").token == grant.token
    assert holders(store) == [("b", False)]


def test_a_holder_whose_grant_lapsed_finds_its_place_without_its_ticket(opened: Opened) -> None:
    store, clock = opened
    first, _ = waiting(opened, "b", "c")
    assert len(released(store, "a", claim())) == 1
    store.set_limit(0, "api")
    clock.advance(TAKE_UP)
    answer = refused(store, claim(), "b", PARK)
    assert (answer.ticket, answer.position, answer.reason) == (first, 0, Reason.PAUSED)
    assert len(waits(store)) == 2


def test_a_caller_whose_grant_lapsed_keeps_its_place(opened: Opened) -> None:
    store, clock = opened
    admitted(store, claim(), "a")
    first = refused(store, claim(), "b", CALL).ticket
    clock.advance(1)
    store.release("a", claim())
    store.set_limit(0, "api")
    clock.advance(GRANT_S)
    again = refused(store, claim(), "b", CALL)
    assert (again.ticket, again.waited) == (first, 1 + GRANT_S)
    assert waits(store) == [again.ticket]


def test_a_caller_takes_its_grant_up_without_its_ticket(opened: Opened) -> None:
    store, _ = opened
    admitted(store, claim(), "a")
    refused(store, claim(), "b", CALL)
    store.release("a", claim())
    admitted(store, claim(), "b", CALL)
    assert holders(store) == [("b", False)]
    assert waits(store) == []


@pytest.mark.parametrize("call", ["acquire", "attach", "name"])
def test_two_calls_put_a_wait_into_line_at_once(
    opened: Opened, server: PostgresServer, call: str
) -> None:
    """They have different claims, so neither has locked what the other has (A19): the second one waits."""
    store, _ = opened
    admitted(store, claim(), "a")
    admitted(store, DISK, "y")
    ticket = requeued(store, DISK, "b")

    def other() -> object:
        if call == "attach":
            return store.attach(ticket, claim(), b"b")
        if call == "name":
            return store.name("s", [HeldWait(ticket, tuple(claim()))])
        return store.acquire(claim(), "b2", came_back(ticket))

    with server.client() as client, ThreadPoolExecutor() as others:
        client.execute("CREATE TEMP TABLE its AS TABLE celery_semaphore.waiter")
        client.execute("DELETE FROM celery_semaphore.waiter")
        with client.transaction():
            client.execute("INSERT INTO celery_semaphore.waiter TABLE its")
            answer = others.submit(other)
            wait_until(lambda: server.run("SELECT 1 FROM pg_locks WHERE NOT granted"), 5)
        if call == "name":
            assert answer.result() == {ticket: Standing.ELSEWHERE}
        else:
            with pytest.raises(OtherClaims) as error:
                answer.result()
            assert error.value.claims == tuple(DISK)
    assert (waits(store), store.snapshot("disk").waiting) == ([], 1)


def test_two_sessions_name_the_same_waits_in_another_order(
    opened: Opened, server: PostgresServer
) -> None:
    """Each with its own claims; here a client is the other one, in the middle of its call."""
    store, _ = opened
    admitted(store, DISK, "y")
    named_waits = [HeldWait(requeued(store, DISK, holder), tuple(claim())) for holder in "bc"]
    its = "INSERT INTO celery_semaphore.waiter SELECT * FROM its WHERE nonce = %s"
    with server.client() as client, ThreadPoolExecutor() as others:
        client.execute("CREATE TEMP TABLE its AS TABLE celery_semaphore.waiter")
        client.execute("DELETE FROM celery_semaphore.waiter")
        with client.transaction():
            client.execute(its, ["b"])
            answer = others.submit(store.name, "s", named_waits[::-1])
            wait_until(lambda: server.run("SELECT 1 FROM pg_locks WHERE NOT granted"), 5)
            client.execute(its, ["c"])
        assert set(answer.result().values()) == {Standing.ELSEWHERE}


@pytest.fixture
def another_had_the_wait(server: PostgresServer) -> Iterator[None]:
    """Let the first insert find the row of another call, which is gone again when its claims are read."""
    server.run(
        "CREATE SEQUENCE turn",
        """
        CREATE FUNCTION another_had_it() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RETURN CASE WHEN nextval('public.turn') > 1 THEN NEW END; END $$
        """,
        """
        CREATE TRIGGER another_had_it BEFORE INSERT ON celery_semaphore.waiter
        FOR EACH ROW EXECUTE FUNCTION another_had_it()
        """,
    )
    yield
    server.run("DROP FUNCTION another_had_it CASCADE", "DROP SEQUENCE turn")


@pytest.mark.usefixtures("another_had_the_wait")
def test_a_call_tries_again_where_another_had_the_wait(
    opened: Opened, server: PostgresServer
) -> None:
    """No worker takes its store for a failing one."""
    store, _ = opened
    admitted(store, claim(), "a")
    ticket = requeued(store, claim(), "b")
    assert waits(store) == [ticket]
    server.run("SELECT setval('turn', 1, false)", "DELETE FROM celery_semaphore.waiter")
    assert not store.attach(ticket, claim(), b"b")
    assert waits(store) == [ticket]
