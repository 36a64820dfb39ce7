"""Test what becomes of a promoted wait: grants, messages and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.permit import Kind, MessageId, Permit, Reason, Refusal, Wait
from tests.conformance.acquisition import admitted, came_back, claim, named, refused
from tests.conformance.grants import limited, messages, reaped, released
from tests.conformance.suite import TAKE_UP, Suite
from tests.conformance.waiting.promoted import BOTH, UNKNOWN, line, order, overtaking, queued

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

DISK = claim(of="disk")


class PromotedWaits(Suite):
    def test_what_was_granted_stays_so(self, store: Store, clock: Clock) -> None:
        first, _ = queued(store, clock, "b", "c")
        outgoing = store.release("a", claim()).outgoing
        store.promote([first], "api")
        (grant,) = store.take(outgoing)
        store.sent([grant])
        admitted(store, claim(), "b2", came_back(grant.ticket, Kind.PARK))

    def test_what_was_granted_has_its_old_place_if_that_comes_to_nothing(
        self, store: Store, clock: Clock
    ) -> None:
        first, _ = queued(store, clock, "b", "c")
        store.release("a", claim())
        store.promote([first], "api")
        store.set_limit(0, "api")
        clock.advance(TAKE_UP)
        store.reap()
        assert [waiter.ticket.priority for waiter in store.snapshot("api").waiters] == [9, 9]

    def test_an_ended_one_ends(self, store: Store, clock: Clock) -> None:
        tickets = queued(store, clock, "b")
        outgoing = store.end(["b"])
        store.promote(tickets, "api")
        (over,) = store.take(outgoing)
        assert (over.payload, over.token) == (b"b", 0)

    def test_it_can_be_ended(self, store: Store, clock: Clock) -> None:
        _, last = queued(store, clock, "b", "c")
        store.promote([last], "api")
        assert line(store) == ["c", "b"]
        (over,) = store.take(store.end(["c"]))
        store.sent([over])
        assert (over.payload, over.token) == (b"c", 0)
        assert order(store, ["b"]) == ["b"]
        assert store.snapshot("api").waiting == 0

    def test_its_wait_ends_when_it_would_have(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        first = named(store, "b", 10.0)
        clock.advance(1)
        last = named(store, "c", 100.0)
        clock.advance(8)
        store.promote([last], "api")
        store.promote([first], "api")
        assert reaped(store) == []
        clock.advance(1)
        assert messages(reaped(store)) == [b"b"]
        assert line(store) == ["c"]

    def test_a_grant_that_nobody_sent_is_back_in_front(self, store: Store, clock: Clock) -> None:
        _, last = queued(store, clock, "b", "c")
        store.promote([last], "api")
        store.release("a", claim())
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"c"]

    def test_one_that_no_limit_could_fit_waits_for_one_that_could(
        self, store: Store, clock: Clock
    ) -> None:
        store.set_limit(1, "api")
        admitted(store, claim(3), "a")
        named(store, "b", claims=claim(3, weight=3))
        clock.advance(1)
        ticket = named(store, "c", claims=claim(3, weight=2))
        store.release("a", claim(3))  # both are set aside
        assert not store.promote([ticket], "api")
        assert messages(limited(store, 3, "api")) == [b"c"]

    def test_one_on_several_claims(self, store: Store, clock: Clock) -> None:
        """Promote it in its one line; it moves to the other claim's line with its new place."""
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "disk")
        named(store, "b", claims=BOTH)
        clock.advance(1)
        store.promote([named(store, "c", claims=BOTH)], "api")
        assert not store.release("a", claim()).outgoing
        assert messages(released(store, "disk", claim(of="disk"))) == [b"c"]

    def test_attached_again(self, store: Store, clock: Clock) -> None:
        """Attach again after a lost answer and a promotion."""
        ticket = overtaking(store, clock)
        store.attach(ticket, claim(), b"c", name="c")
        assert line(store) == ["c", "b"]
        assert order(store, ["c", "b"]) == ["c", "b"]

    def test_asked_by_its_old_ticket(self, store: Store, clock: Clock) -> None:
        """Redeliver the message of a worker that died before it acknowledged."""
        ticket = overtaking(store, clock)
        answer = refused(store, claim(), "c2", came_back(ticket, Kind.PARK))
        assert answer.position == 0
        assert answer.ticket == store.snapshot("api").waiters[0].ticket
        assert line(store) == ["c", "b"]
        assert order(store, ["c", "b"]) == ["c", "b"]

    def test_asked_by_its_old_ticket_when_the_other_is_on_its_way(
        self, store: Store, clock: Clock
    ) -> None:
        """Let the first of its two messages take up the grant that was sent."""
        ticket = overtaking(store, clock)
        (grant,) = released(store, "a", claim())
        store.sent([grant])
        permit = admitted(store, claim(), "c2", came_back(ticket, Kind.PARK))
        assert permit.token == grant.token
        assert line(store) == ["b"]

    def test_a_message_that_was_admitted_inherits_no_promotion(
        self, store: Store, clock: Clock
    ) -> None:
        """Release it without an end, and deliver it again: its promoted wait is over."""
        again = MessageId("c", redelivered=True)
        queued(store, clock, "b")
        clock.advance(1)
        answer = store.acquire(claim(), "c", Wait(Kind.PARK), MessageId("c"))
        assert isinstance(answer, Refusal)
        assert answer.ticket
        store.attach(answer.ticket, claim(), b"c", name="c")
        store.promote([answer.ticket], "api")
        store.sent(released(store, "a", claim()))
        assert isinstance(store.acquire(claim(), "c2", Wait(Kind.PARK), again), Permit)
        store.release("c2", claim())  # it did not run the task
        clock.advance(1)
        anew = store.acquire(claim(), "c3", Wait(Kind.PARK), again)
        assert isinstance(anew, Refusal)
        assert anew.ticket
        assert (anew.ticket.priority, anew.ticket.since) == (0, clock.now)

    def test_attached_again_when_it_is_on_its_way(self, store: Store, clock: Clock) -> None:
        ticket = overtaking(store, clock)
        (grant,) = released(store, "a", claim())
        store.sent([grant])
        assert not store.attach(ticket, claim(), b"c", name="c")
        permit = admitted(store, claim(), "c2", came_back(grant.ticket, Kind.PARK))
        assert permit.token == grant.token
        assert line(store) == ["b"]

    def test_what_is_overdue_ends_first(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        tickets = [named(store, "b", 10.0), named(store, "c")]
        clock.advance(11)
        (over,) = store.take(store.promote(tickets, "api"))
        assert (over.payload, over.token) == (b"b", 0)
        assert line(store) == ["c"]

    def test_a_grant_that_is_overdue_is_promoted(self, store: Store, clock: Clock) -> None:
        """Promote it though no call has noticed yet that its message stands in line again."""
        first, last = queued(store, clock, "b", "c")
        released(store, "a", claim())
        store.set_limit(0, "api")
        store.promote([last], "api")
        clock.advance(TAKE_UP)
        store.promote([first], "api")
        assert line(store) == ["b", "c"]

    def test_what_has_no_name_is_nobodys(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        for holder in ("b", "c"):
            clock.advance(1)
            ticket = refused(store, claim(), holder, Wait(Kind.PARK)).ticket
            assert ticket
            store.attach(ticket, claim(), b"")
        before = store.snapshot("api").waiters
        assert not store.end([""])
        assert store.snapshot("api").waiters == before

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

    def test_nothing_of_nobody(self, store: Store) -> None:
        assert store.promote([], "api") == frozenset()
        assert store.promote([UNKNOWN], "api") == frozenset()
        assert list(store.resources()) == []

    def test_nothing_is_left(self, store: Store, clock: Clock) -> None:
        _, last = queued(store, clock, "b", "c")
        store.promote([last], "api")
        assert order(store, ["c", "b"]) == ["c", "b"]
        store.release("b", claim())
        assert store.snapshot("api").waiting == store.snapshot("api").occupied == 0
        assert list(store.resources()) == []
