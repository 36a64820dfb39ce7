"""Test waits that an operator promotes before all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.permit import Kind, Reason, Wait
from celery_semaphore.core.session import Standing
from tests.conformance.acquisition import admitted, came_back, claim, named, refused, requeued
from tests.conformance.grants import limited, messages, released
from tests.conformance.sessions.session_calls import S, held, holding
from tests.conformance.suite import Suite
from tests.conformance.waiting.promoted import UNKNOWN, line, order, queued

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Promotions(Suite):
    def test_it_goes_first(self, store: Store, clock: Clock) -> None:
        *_, last = queued(store, clock, "b", "c", "d")
        assert not store.promote([last, UNKNOWN], "api")
        assert order(store, ["d", "b", "c"]) == ["d", "b", "c"]

    def test_several_go_by_first_come(self, store: Store, clock: Clock) -> None:
        """Keep that order however often, and in whatever order, they were promoted."""
        _, c, d = queued(store, clock, "b", "c", "d")
        for ticket in (d, c, d):
            store.promote([ticket], "api")
        assert order(store, ["c", "d", "b"]) == ["c", "d", "b"]

    def test_it_is_seen_in_its_new_place(self, store: Store, clock: Clock) -> None:
        """Show it with the time for which it has waited."""
        queued(store, clock, "b", "c")
        before = store.snapshot("api").waiters[1]
        store.promote([before.ticket], "api")
        after = store.snapshot("api").waiters[0]
        assert (after.position, after.ticket.priority) == (0, 255)
        assert (after.ticket.since, after.kind, after.weight) == (
            before.ticket.since,
            before.kind,
            1,
        )
        assert line(store) == ["c", "b"]

    def test_it_goes_before_one_in_transit(self, store: Store, clock: Clock) -> None:
        """Refuse a wait in transit that asks while there is room for it, and was more urgent before."""
        admitted(store, claim(1), "a")
        ticket = requeued(store, claim(1), "w", priority=9)
        clock.advance(1)
        store.promote([named(store, "b", claims=claim(1))], "api")
        assert refused(store, claim(2), "w2", came_back(ticket)).reason is Reason.SATURATED

    def test_it_goes_before_one_that_is_held(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        refused(store, claim(), "w", holding(priority=9))
        clock.advance(1)
        store.promote([named(store, "b")], "api")
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_one_that_is_held_goes_first(self, store: Store, clock: Clock) -> None:
        """Ask by the ticket of before the promotion, which its session knows."""
        store.ask(S)
        admitted(store, claim(), "a")
        named(store, "b", priority=9)
        clock.advance(1)
        wait = held(store, "w")
        store.promote([wait.ticket], "api")
        assert line(store) == ["w", "b"]
        reply = store.ask(S, to_forecast=[wait])
        assert (reply.granted, reply.expected) == (frozenset(), {"w": 1.0})
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert line(store) == ["w", "b"]
        assert not store.release("a", claim()).outgoing
        assert store.ask(S).granted == {"w"}
        admitted(store, claim(), "w2", came_back(wait.ticket))
        assert messages(released(store, "w2", claim())) == [b"b"]

    def test_one_in_transit_goes_first_when_it_asks(self, store: Store, clock: Clock) -> None:
        """Block no other wait until then."""
        admitted(store, claim(), "a")
        named(store, "b", priority=9)
        clock.advance(1)
        ticket = requeued(store, claim(), "w")
        store.promote([ticket], "api")
        assert line(store) == ["w", "b"]
        (grant,) = released(store, "a", claim())
        assert grant.payload == b"b"
        store.sent([grant])
        admitted(store, claim(), "b2", came_back(grant.ticket, Kind.PARK))
        named(store, "c", priority=9)
        store.ask(S)
        assert refused(store, claim(), "w2", holding(ticket=ticket)).position == 0
        assert not store.release("b2", claim()).outgoing
        assert store.ask(S).granted == {"w"}

    def test_one_that_calls_goes_first(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        named(store, "b", priority=9)
        clock.advance(1)
        ticket = refused(store, claim(), "w", Wait(Kind.BLOCK, session=S)).ticket
        assert ticket
        store.promote([ticket], "api")
        assert not store.release("a", claim()).outgoing
        assert store.ask(S).granted == {"w"}

    def test_one_that_waits_elsewhere_stays_as_it_is(self, store: Store) -> None:
        admitted(store, claim(), "a")
        admitted(store, claim(of="disk"), "d")
        ticket = named(store, "b", claims=claim(of="disk"))
        before = store.snapshot("disk").waiters
        assert not store.promote([ticket], "api")
        assert store.snapshot("disk").waiters == before
        assert store.snapshot("api").waiting == 0

    def test_nobody_who_is_free_waits(self, store: Store, clock: Clock) -> None:
        store.set_limit(0, "api")
        named(store, "b")
        clock.advance(1)
        assert not store.promote([named(store, "c")], "api")
        assert messages(limited(store, None, "api")) == [b"c"]

    def test_a_light_one_goes_before_the_heavy_one_that_blocks(
        self, store: Store, clock: Clock
    ) -> None:
        admitted(store, claim(2), "a")
        named(store, "heavy", claims=claim(2, weight=2))
        clock.advance(1)
        ticket = named(store, "light", claims=claim(2))
        assert messages(store.take(store.promote([ticket], "api"))) == [b"light"]
