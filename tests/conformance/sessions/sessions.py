"""Test sessions: a permit is granted to the first in line with an awake session.

The rows are those of docs/maintain/architecture.md, chapters 4, 5 and 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.session import GRANT_S, HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, parked, refused
from tests.conformance.grants import released
from tests.conformance.sessions.session_calls import S, T, held, held_in_turn, nonces, reachable
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Sessions(Suite):
    def test_a_session_says_whether_it_slept(self, store: Store, clock: Clock) -> None:
        """Q2: it is awake for a lease after it asked."""
        assert store.ask(S).slept
        clock.advance(LEASE - 0.001)
        assert not store.ask(S).slept
        clock.advance(LEASE)
        assert store.ask(S).slept
        store.sleep(S)
        assert store.ask(S).slept

    def test_awake_sessions_are_counted(self, store: Store, clock: Clock) -> None:
        store.ask(T)
        clock.advance(LEASE / 2)
        assert store.ask(S).sessions == 2
        clock.advance(LEASE / 2)
        assert store.ask(S).sessions == 1

    def test_an_answer_tells_the_epoch(self, store: Store) -> None:
        permit = admitted(store, claim(), "a")
        assert store.ask(S).epoch == permit.epoch

    def test_who_holds_it_is_shown(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        (waiter,) = store.snapshot("api").waiters
        assert (waiter.ticket, waiter.session, waiter.reachable) == (wait.ticket, S, True)

    def test_a_session_that_asks_no_more_sleeps(self, store: Store, clock: Clock) -> None:
        """E7: it died after it had learned of the grant, so its next wait is not granted."""
        store.ask(S)
        admitted(store, claim(), "a")
        first = held(store, "b")
        clock.advance(0.001)
        held(store, "c")
        store.ask(T)
        other = held(store, "other", T)
        store.release("a", claim())
        clock.advance(0.001)
        assert store.ask(S).granted == nonces(first)
        clock.advance(GRANT_S / 2)
        assert store.ask(T).granted == nonces()
        clock.advance(GRANT_S / 2)
        store.reap()
        assert store.ask(T).granted == nonces(other)

    def test_a_session_that_did_not_ask_sleeps(self, store: Store, clock: Clock) -> None:
        """E7: a stopped or killed worker costs two seconds once, however many waits it holds."""
        store.ask(S)
        store.ask(T)
        admitted(store, claim(), "a")
        waits = held_in_turn(store, clock, "bcdefg")
        other = held(store, "other", T)
        store.release("a", claim())
        assert granted(store) == [waits[0].ticket]
        clock.advance(GRANT_S)
        store.reap()
        assert granted(store) == [other.ticket]
        assert reachable(store) == []
        reply = store.ask(S)
        assert (reply.slept, reply.granted) == (True, frozenset())

    def test_a_lease_without_a_question(self, store: Store, clock: Clock) -> None:
        store.ask(S)
        permit = admitted(store, claim(), "a")
        held(store, "b")
        clock.advance(LEASE / 2)
        store.renew([permit])
        behind = parked(store, claim(), "c")
        clock.advance(LEASE / 2)
        released(store, "a", claim())
        assert granted(store) == [behind]

    def test_a_refusal_does_not_wake_a_session(self, store: Store, clock: Clock) -> None:
        """E2: it comes from another process, and does not prove that the process that must ask is alive."""
        admitted(store, claim(), "a")
        wait = held(store, "b")
        assert reachable(store) == []
        clock.advance(0.001)
        behind = parked(store, claim(), "c")
        released(store, "a", claim())
        assert granted(store) == [behind]
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [wait.ticket]

    def test_a_refused_call_wakes_its_session(self, store: Store) -> None:
        """Wake it, for the refused call comes from the very process that asks."""
        admitted(store, claim(), "a")
        call = refused(store, claim(), "b", Wait(Kind.BLOCK, session=S)).ticket
        assert reachable(store) == [call]
        assert not store.ask(S).slept

    def test_an_admitted_call_wakes_no_session(self, store: Store) -> None:
        """Leave it asleep, for the process has nothing to ask for."""
        admitted(store, claim(), "a", Wait(Kind.BLOCK, session=S))
        assert store.ask(S).slept

    def test_the_newest_refusal_has_it(self, store: Store) -> None:
        """E1: the message is delivered again to another worker; the first one learns nothing more of it."""
        store.ask(S)
        store.ask(T)
        admitted(store, claim(), "a")
        wait = held(store, "b", S)
        assert held(store, "b2", T, ticket=wait.ticket).ticket == wait.ticket
        store.release("a", claim())
        assert store.ask(S).granted == frozenset()
        assert store.ask(T).granted == nonces(wait)

    def test_turns_that_are_expected(self, store: Store, clock: Clock) -> None:
        """Q5: each answer computes (position + 1) / limit * hold anew."""
        store.ask(S)
        admitted(store, claim(), "a")
        clock.advance(4)
        store.release("a", claim())
        admitted(store, claim(), "a2")
        waits = held_in_turn(store, clock, "012")
        first, second, third = (wait.ticket.nonce for wait in waits)
        assert store.ask(S, to_forecast=[waits[2], waits[0]]).expected == {first: 4.0, third: 12.0}
        store.set_limit(2, "api")
        assert store.ask(S, to_forecast=waits).expected == {second: 2.0, third: 4.0}

    def test_a_short_hold_is_believed_at_once(self, store: Store, clock: Clock) -> None:
        """Q5: after long holds the mean would be too long for many turns; a single long hold says little."""
        turns = list[float]()
        for n, seconds in enumerate((20.0, 1.0, 24.0, 1.0)):
            store.ask(S)
            admitted(store, claim(), f"a{n}")
            wait = held(store, f"w{n}")
            turns += store.ask(S, to_forecast=[wait]).expected.values()
            clock.advance(seconds)
            store.release(f"a{n}", claim())
            store.release(wait.ticket, claim())
        assert turns == [1.0, 20.0, 1.0, 15.0]

    def test_nothing_is_expected_of_a_pause_or_of_what_does_not_wait(self, store: Store) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        wait = held(store, "b")
        gone = HeldWait(Ticket("gone", 0, 1), tuple(claim()))
        store.set_limit(0, "api")
        assert store.ask(S, to_forecast=[wait, gone]).expected == {}
