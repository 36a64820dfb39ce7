"""Test waits that an operator promotes before all others: E11."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.session import GRANT_S, Standing
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind
from tests.conformance.acquisition import admitted, came_back, claim, named, refused, requeued
from tests.conformance.grants import limited, messages, reaped, released
from tests.conformance.sessions.session_calls import S, held, holding
from tests.conformance.suite import TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

BOTH = claim() + claim(of="disk")
UNKNOWN = Ticket("unknown", 246, 1)


def queued(store: Store, clock: Clock, *holders: str) -> list[Ticket]:
    """Return the tickets of holders that are parked behind "a", one after the other."""
    admitted(store, claim(), "a")
    tickets = list[Ticket]()
    for holder in holders:
        clock.advance(1)
        tickets.append(named(store, holder, priority=9))
    return tickets


def overtaking(store: Store, clock: Clock) -> Ticket:
    """Return the first ticket of "c", which was promoted past "b"."""
    _, ticket = queued(store, clock, "b", "c")
    store.promote([ticket], "api")
    return ticket


def order(store: Store, wanted: list[str]) -> list[str]:
    """Return the order in which the permit of "a" is handed on."""
    found, holder = list[str](), "a"
    for _ in wanted:
        (grant,) = released(store, holder, claim())
        found.append(grant.payload.decode())
        store.sent([grant])
        holder = found[-1]
        admitted(store, claim(), holder, came_back(grant.ticket, Kind.PARK))
    return found


def line(store: Store) -> list[str]:
    """Return the nonces of the waits, in order."""
    seen = store.snapshot("api")
    assert [each.position for each in seen.waiters] == list(range(seen.waiting))
    return [each.ticket.nonce for each in seen.waiters]


class Promotions(Suite):
    def test_it_goes_first(self, store: Store, clock: Clock) -> None:
        *_, last = queued(store, clock, "b", "c", "d")
        assert store.promote([last, UNKNOWN], "api") == {"d"}
        assert order(store, ["d", "b", "c"]) == ["d", "b", "c"]
        store.release("c", claim())
        assert list(store.resources()) == []

    def test_several_go_by_first_come(self, store: Store, clock: Clock) -> None:
        """Keep that order however often, and in whatever order, they were promoted."""
        _, c, d = queued(store, clock, "b", "c", "d")
        for ticket in (d, c, d):
            assert store.promote([ticket], "api") == {ticket.nonce}
        assert order(store, ["c", "d", "b"]) == ["c", "d", "b"]

    def test_it_is_seen_in_its_new_place(self, store: Store, clock: Clock) -> None:
        """Show it with the time for which it has waited."""
        queued(store, clock, "b", "c")
        before = store.snapshot("api").waiters[1]
        clock.advance(1)
        store.promote([before.ticket], "api")
        after = store.snapshot("api").waiters[0]
        assert (after.position, after.ticket.priority) == (0, 255)
        assert (after.ticket.nonce, after.ticket.since) == ("c", before.ticket.since)

    # Which waits stand in this line.

    def test_one_in_transit_is_left_alone(self, store: Store, clock: Clock) -> None:
        """Say so; it keeps its place when it comes."""
        admitted(store, claim(), "a")
        named(store, "b", priority=9)
        clock.advance(1)
        ticket = requeued(store, claim(), "w")
        named(store, "c", priority=0)
        assert store.promote([ticket], "api") == frozenset()
        assert refused(store, claim(), "w2", came_back(ticket)).ticket == ticket
        assert line(store)[0] == "b"

    def test_one_that_waits_elsewhere_is_left_alone(self, store: Store) -> None:
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "d")
        ticket = named(store, "b", claims=claim(of="disk"))
        before = store.snapshot("disk").waiters
        assert store.promote([ticket], "api") == frozenset()
        assert store.snapshot("disk").waiters == before

    def test_what_was_granted_is_left_alone(self, store: Store, clock: Clock) -> None:
        """It has its old place if the grant comes to nothing."""
        first, _ = queued(store, clock, "b", "c")
        store.release("a", claim())
        assert store.promote([first], "api") == frozenset()
        store.set_limit(0, "api")
        clock.advance(TAKE_UP)
        store.reap()
        assert [waiter.ticket.priority for waiter in store.snapshot("api").waiters] == [9, 9]

    def test_one_that_no_limit_could_fit_waits_for_one_that_could(
        self, store: Store, clock: Clock
    ) -> None:
        store.set_limit(1, "api")
        admitted(store, claim(3), "a")
        named(store, "b", claims=claim(3, weight=3))
        clock.advance(1)
        ticket = named(store, "c", claims=claim(3, weight=2))
        store.release("a", claim(3))  # both are set aside
        assert store.promote([ticket], "api") == {"c"}
        assert messages(limited(store, 3, "api")) == [b"c"]

    # Before which waits it goes.

    def test_it_goes_before_one_in_transit(self, store: Store, clock: Clock) -> None:
        """Refuse a wait in transit that asks while there is room for it, and was more urgent before."""
        admitted(store, claim(1), "a")
        ticket = requeued(store, claim(1), "w", priority=9)
        clock.advance(1)
        store.promote([named(store, "b", claims=claim(1))], "api")
        assert refused(store, claim(2), "w2", came_back(ticket)).reason is Reason.SATURATED

    def test_a_light_one_goes_before_the_heavy_one_that_blocks(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, claim(2), "a")
        named(store, "heavy", claims=claim(2, weight=2))
        clock.advance(1)
        ticket = named(store, "light", claims=claim(2))
        assert store.promote([ticket], "api") == {"light"}
        assert [each.ticket.nonce for each in store.snapshot("api").waiters] == ["heavy"]
        assert messages(reaped(store)) == [b"light"]

    # How it keeps that place, until its wait is over.

    def test_it_keeps_its_place_when_its_session_names_it(self, store: Store, clock: Clock) -> None:
        """Ask by the ticket of before the promotion, which its session knows; also after it slept."""
        store.ask(S)
        admitted(store, claim(), "a")
        named(store, "b", priority=9)
        clock.advance(1)
        wait = held(store, "w")
        assert store.promote([wait.ticket], "api") == {"w"}
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert line(store) == ["w", "b"]
        store.sleep(S)
        assert messages(released(store, "a", claim())) == [b"b"]
        store.ask(S)
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        clock.advance(TAKE_UP)
        assert reaped(store) == []
        assert store.ask(S).granted == {"w"}

    def test_it_keeps_its_place_when_its_message_is_given_back(
        self, store: Store, clock: Clock
    ) -> None:
        """Another worker receives the message, with the ticket of before the promotion or none."""
        store.ask(S)
        store.ask("other")
        admitted(store, claim(), "a")
        named(store, "b", priority=9)
        clock.advance(1)
        ticket = refused(store, claim(), "w", holding()).ticket
        assert ticket
        store.promote([ticket], "api")
        store.sleep(S)
        answer = refused(store, claim(), "w2", holding("other", ticket=ticket))
        assert (answer.position, line(store)) == (0, ["w", "b"])
        assert not store.release("a", claim()).outgoing
        assert store.ask("other").granted == {"w"}

    def test_it_keeps_its_place_when_its_grant_ends(self, store: Store, clock: Clock) -> None:
        _, last = queued(store, clock, "b", "c")
        store.promote([last], "api")
        store.release("a", claim())
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"c"]

    def test_it_keeps_its_place_when_the_grant_of_its_session_ends(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        named(store, "b", priority=9)
        clock.advance(1)
        wait = held(store, "w")
        store.promote([wait.ticket], "api")
        store.release("a", claim())
        store.set_limit(0, "api")
        clock.advance(GRANT_S)
        store.reap()
        assert line(store) == ["w", "b"]
        assert refused(store, claim(), "w2", came_back(wait.ticket)).position == 0

    def test_it_keeps_its_place_in_another_line(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "disk")
        named(store, "b", claims=BOTH)
        clock.advance(1)
        store.promote([named(store, "c", claims=BOTH)], "api")
        assert not store.release("a", claim()).outgoing
        assert messages(released(store, "disk", claim(of="disk"))) == [b"c"]

    def test_it_keeps_its_place_when_it_is_attached_again(self, store: Store, clock: Clock) -> None:
        """Attach again after a lost answer and a promotion."""
        ticket = overtaking(store, clock)
        store.attach(ticket, claim(), b"c", name="c")
        assert line(store) == ["c", "b"]
        assert order(store, ["c", "b"]) == ["c", "b"]

    def test_it_keeps_its_place_when_it_is_asked_by_its_old_ticket(
        self, store: Store, clock: Clock
    ) -> None:
        """Redeliver the message of a worker that died before it acknowledged."""
        ticket = overtaking(store, clock)
        answer = refused(store, claim(), "c2", came_back(ticket, Kind.PARK))
        assert answer.position == 0
        assert answer.ticket == store.snapshot("api").waiters[0].ticket
        assert order(store, ["c", "b"]) == ["c", "b"]

    def test_its_copy_does_not_run(self, store: Store, clock: Clock) -> None:
        """Refuse a copy, also one that carries its old ticket."""
        admitted(store, claim(), "a")
        first = MessageId("c:0")
        answer = store.acquire(claim(), "c", came_back(None, Kind.PARK), first)
        assert isinstance(answer, Refusal)
        assert answer.ticket
        store.attach(answer.ticket, claim(), b"c", name="c")
        clock.advance(1)
        store.promote([answer.ticket], "api")
        (grant,) = released(store, "a", claim())
        store.sent([grant])
        brought = MessageId("c:0", "c.1")
        permit = store.acquire(claim(), "c2", came_back(grant.ticket, Kind.PARK), brought)
        assert isinstance(permit, Permit)
        store.release("c2", claim(), brought)
        copy = MessageId("c:0", redelivered=True)
        again = store.acquire(claim(), "c3", came_back(answer.ticket, Kind.PARK), copy)
        assert isinstance(again, Refusal)
        assert again.reason is Reason.COPY
