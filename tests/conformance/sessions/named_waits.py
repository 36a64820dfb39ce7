"""Test how a session names the waits that it owns, and what the store makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.session import HeldWait, Standing
from celery_semaphore.core.ticket import Ticket
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.grants import messages, released
from tests.conformance.sessions.session_calls import (
    HOUR,
    S,
    T,
    examine_line,
    forgotten_after,
    held,
    holding,
    nonces,
    reachable,
    tickets,
)
from tests.conformance.suite import LEASE, TAKE_UP, Suite
from tests.conformance.waiting.calling import BOTH, granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class NamedWaits(Suite):
    def test_a_session_that_slept_names_what_it_holds(self, store: Store) -> None:
        """N2: a wait that it still owns stands in line again."""
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.sleep(S)
        examine_line(store)
        assert reachable(store) == []
        assert store.ask(S).slept
        assert reachable(store) == [], "it was put in transit at the head of the line"
        assert store.name(S, [wait]) == {wait.ticket: Standing.WAITS}
        assert reachable(store) == [wait.ticket]
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)

    def test_what_stands_first_by_being_named_is_granted_by_the_next_reap(
        self, store: Store
    ) -> None:
        admitted(store, claim(), "a")
        wait = held(store, "b")
        store.release("a", claim())
        assert granted(store) == []
        store.ask(S)
        store.name(S, [wait])
        store.reap()
        assert store.ask(S).granted == nonces(wait)

    def test_what_the_store_does_not_know_stands_again(self, store: Store, clock: Clock) -> None:
        """N1: it has its place, its priority and its claims."""
        store.ask(S)
        permit = admitted(store, claim(), "a")
        clock.advance(10)
        later = held(store, "late")
        first = HeldWait(Ticket("gone", 7, int(clock.now * 1e6)), tuple(claim()))
        earlier = HeldWait(Ticket("old", 0, int((clock.now - 5) * 1e6)), tuple(claim()))
        assert set(store.name(S, [earlier, first]).values()) == {Standing.WAITS}
        line = store.snapshot("api").waiters
        assert [waiter.ticket for waiter in line] == tickets([first, earlier, later])
        assert [waiter.ticket.priority for waiter in line] == [7, 0, 0]
        assert store.name(S, [earlier, first]) == dict.fromkeys(
            tickets([earlier, first]), Standing.WAITS
        )
        assert store.snapshot("api").waiting == 3
        store.renew([permit])
        store.release("a", claim())
        assert store.ask(S).granted == nonces(first)

    def test_what_stands_again_is_granted_by_the_next_reap(self, store: Store) -> None:
        wait = HeldWait(Ticket("gone", 0, 1), tuple(claim()))
        store.ask(S)
        store.name(S, [wait])
        store.reap()
        assert store.ask(S).granted == nonces(wait)

    def test_a_session_that_sleeps_names_in_vain(self, store: Store, clock: Clock) -> None:
        """Put its waits in transit, for as long as their places are kept."""
        store.set_limit(0, "api")
        ticket = refused(store, claim(), "b", holding(keeps=HOUR)).ticket
        assert ticket
        known = HeldWait(ticket, tuple(claim()), keeps=HOUR)
        unknown = HeldWait(Ticket("gone", 0, 1), tuple(claim()), keeps=HOUR)
        clock.advance(HOUR)
        store.name(S, [known, unknown])
        assert (reachable(store), store.snapshot("api").waiting) == ([], 2)
        forgotten_after(HOUR, store, clock)

    def test_several_claims_stand_again(self, store: Store) -> None:
        store.ask(S)
        admitted(store, BOTH, "a")
        wait = HeldWait(Ticket("gone", 0, 1), tuple(BOTH))
        store.name(S, [wait])
        store.release("a", BOTH)
        assert granted(store) == granted(store, "disk") == [wait.ticket]

    def test_what_another_session_has_is_left_to_it(self, store: Store) -> None:
        """N4: naming a wait takes it from no other session."""
        store.ask(S)
        store.ask(T)
        admitted(store, claim(), "a")
        wait = held(store, "b", T)
        assert store.name(S, [wait]) == {wait.ticket: Standing.ELSEWHERE}
        store.release("a", claim())
        assert (store.ask(S).granted, store.ask(T).granted) == (frozenset(), nonces(wait))

    def test_what_was_parked_meanwhile_is_elsewhere(self, store: Store) -> None:
        """Name one message of a task while the other lies in the store."""
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        assert store.name(S, [HeldWait(ticket, tuple(claim()))]) == {ticket: Standing.ELSEWHERE}
        assert messages(released(store, "a", claim())) == [b"b"]

    def test_what_was_sent_meanwhile_is_elsewhere(self, store: Store) -> None:
        """N4: otherwise it would stand in line, too, and get a second permit."""
        store.ask(S)
        admitted(store, BOTH, "a")
        ticket = parked(store, BOTH, "b")
        store.sent(released(store, "a", BOTH))
        changed = tuple(claim(of="new") + BOTH)
        assert store.name(S, [HeldWait(ticket, changed)]) == {ticket: Standing.ELSEWHERE}
        assert store.snapshot("new").waiting == store.snapshot("api").waiting == 0

    def test_what_was_sent_too_long_ago_waits(self, store: Store, clock: Clock) -> None:
        """N1: its grant has ended, though no call has noticed that yet."""
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        clock.advance(TAKE_UP)
        assert store.name(S, [HeldWait(ticket, tuple(claim()))]) == {ticket: Standing.WAITS}
        assert store.snapshot("api").waiting == 1
        store.reap()
        assert store.ask(S).granted == {ticket.nonce}

    def test_in_the_grace_what_was_sent_is_elsewhere_all_the_same(
        self, store: Store, clock: Clock
    ) -> None:
        """Keep its grant, for the server was away when its message came."""
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        clock.advance(TAKE_UP - 1)
        self.remember(store)()
        clock.advance(1)
        store.ask(S)
        assert store.name(S, [HeldWait(ticket, tuple(claim()))]) == {ticket: Standing.ELSEWHERE}

    def test_naming_many(self, store: Store) -> None:
        """Name waits at several resources in one call."""
        store.ask(S)
        waits = [
            HeldWait(Ticket(f"{n}", 0, n + 1), tuple(claim(key=f"{n % 7}"))) for n in range(500)
        ]
        assert store.name(S, waits) == dict.fromkeys(tickets(waits), Standing.WAITS)
        assert store.snapshot("api/3").waiting == 71

    def test_sessions_stand_again_in_the_grace(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(), "a")
        store.ask(S)
        wait = held(store, "b")
        self.forget(store)
        assert store.ask(S).slept
        store.name(S, [wait])
        store.renew([permit])
        store.reap()
        assert granted(store) == []
        clock.advance(LEASE - 1)
        store.ask(S)
        store.release("a", claim())
        assert store.ask(S).granted == nonces(wait)
