"""Test that a session is granted no more than it can use: row H11 of docs/maintain/architecture.md, chapter 7."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, parked, refused, why
from tests.conformance.sessions.session_calls import (
    S,
    T,
    examine_line,
    held,
    holding,
    nonces,
    reachable,
    tickets,
)
from tests.conformance.suite import LEASE, Suite
from tests.conformance.waiting.calling import granted

if TYPE_CHECKING:
    from celery_semaphore.core.session import HeldWait
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

LIMIT = 6
CLAIM = claim(LIMIT)
BOTH = [*CLAIM, *claim(LIMIT, of="disk")]


def waiting(store: Store, clock: Clock, holders: str, session: str = S) -> list[HeldWait]:
    """Let a task wait for each letter, at one place after the other; the semaphore is paused."""
    store.set_limit(0, "api")
    waits = []
    for holder in holders:
        waits.append(held(store, holder, session, CLAIM))
        clock.advance(0.001)
    return waits


def resumed(store: Store) -> None:
    assert not store.set_limit(None, "api")


class Room(Suite):
    def test_it_is_granted_what_it_has_room_for(self, store: Store, clock: Clock) -> None:
        store.ask(S, room=2)
        waits = waiting(store, clock, "abcd")
        resumed(store)
        assert store.ask(S, room=2).granted == nonces(*waits[:2])
        assert reachable(store) == tickets(waits[2:])

    def test_others_are_granted_the_rest(self, store: Store, clock: Clock) -> None:
        """Permits that a busy worker cannot use would idle beside the waits of others."""
        store.ask(S, room=2)
        store.ask(T)
        waits, others = waiting(store, clock, "abcd"), waiting(store, clock, "mn", T)
        message = parked(store, CLAIM, "p")
        clock.advance(0.001)
        last = waiting(store, clock, "e")
        assert store.set_limit(None, "api") == {"api"}
        assert store.ask(T).granted == nonces(*others)
        assert set(granted(store)) == {*tickets([*waits[:2], *others]), message}
        assert reachable(store) == tickets([*waits[2:], *last])

    def test_it_keeps_its_place(self, store: Store, clock: Clock) -> None:
        """Grant the first of its waits before younger ones of others once its session has room."""
        store.ask(S, room=1)
        store.ask(T)
        waits = waiting(store, clock, "abc")
        resumed(store)
        for holder in "12345":
            admitted(store, CLAIM, holder)
        other = held(store, "m", T, CLAIM)
        admitted(store, CLAIM, "a2", holding(ticket=waits[0].ticket))
        assert store.release("1", CLAIM).granted == nonces(waits[1])
        assert store.release("2", CLAIM).granted == nonces(other)

    def test_a_new_task_passes_it(self, store: Store, clock: Clock) -> None:
        """C5: the worker that it came to has a free process."""
        store.ask(S, room=1)
        waits = waiting(store, clock, "ab")
        resumed(store)
        admitted(store, CLAIM, "new", holding(T))
        assert granted(store) == tickets(waits[:1])
        assert reachable(store) == tickets(waits[1:])

    def test_a_new_task_passes_no_other(self, store: Store, clock: Clock) -> None:
        """C5: behind a wait of a session without room stands one that blocks the line."""
        store.ask(S, room=1)
        store.ask(T)
        waiting(store, clock, "ab")
        heavy = held(store, "m", T, claim(LIMIT, weight=LIMIT))
        clock.advance(0.001)
        resumed(store)
        assert why(store, CLAIM, "new") == "saturated"
        assert reachable(store)[-1] == heavy.ticket

    def test_it_is_granted_more_once_it_has_room(self, store: Store, clock: Clock) -> None:
        """Grant with the next reap what the session has room for since it took a grant up: the resource is due."""
        store.ask(S, room=1)
        waits = waiting(store, clock, "abc")
        resumed(store)
        admitted(store, CLAIM, "a2", holding(ticket=waits[0].ticket))
        assert not store.reap()
        assert store.ask(S, room=1).granted == nonces(waits[1])

    def test_a_question_changes_its_room(self, store: Store, clock: Clock) -> None:
        """Believe the newest one: a pool grows, or an older worker asks without a bound."""
        store.ask(S, room=1)
        waits = waiting(store, clock, "abcd")
        resumed(store)
        for room, many in ((2, 2), (1, 2), (None, 4)):
            store.ask(S, room=room)
            assert not store.reap()
            assert store.ask(S, room=room).granted == nonces(*waits[:many])

    def test_a_session_without_any_room_is_granted_nothing(
        self, store: Store, clock: Clock
    ) -> None:
        store.ask(S, room=0)
        waiting(store, clock, "a")
        resumed(store)
        assert granted(store) == []

    def test_a_grant_that_ends_makes_room(self, store: Store, clock: Clock) -> None:
        """E7, E14: the session gave one up, and another one lapsed."""
        store.ask(S, room=1)
        waits = waiting(store, clock, "abc")
        resumed(store)
        assert store.release(waits[0].ticket, CLAIM).granted == nonces(waits[1])
        clock.advance(GRANT_S / 2)
        store.ask(S, room=1)
        clock.advance(GRANT_S / 2)
        assert not store.reap()
        assert store.ask(S, room=1).granted == nonces(waits[2])

    def test_its_room_is_for_all_resources(self, store: Store, clock: Clock) -> None:
        store.ask(S, room=2)
        (first,) = waiting(store, clock, "a")
        store.set_limit(0, "disk")
        others = [held(store, holder, S, claim(LIMIT, of="disk")) for holder in "xy"]
        resumed(store)
        store.set_limit(None, "disk")
        reply = store.ask(S, room=2)
        assert len(reply.granted) == 2
        assert reply.granted < nonces(first, *others)

    def test_a_wait_with_two_claims_is_passed_over(self, store: Store, clock: Clock) -> None:
        """Move it to no other line: the session may have room before that line does."""
        store.ask(S, room=1)
        waits = waiting(store, clock, "a")
        second = held(store, "b", S, BOTH)
        resumed(store)
        assert reachable(store) == [second.ticket]
        admitted(store, CLAIM, "a2", holding(ticket=waits[0].ticket))
        assert not store.reap()
        assert granted(store) == granted(store, "disk") == [second.ticket]

    def test_a_session_that_slept_has_its_new_room(self, store: Store, clock: Clock) -> None:
        store.ask(S, room=1)
        waits = waiting(store, clock, "abc")
        store.sleep(S)
        store.ask(S)
        resumed(store)
        assert store.ask(S).granted == nonces(*waits)

    def test_a_call_has_no_bound(self, store: Store, clock: Clock) -> None:
        """Grant all of them: each call has a thread of its own."""
        store.set_limit(0, "api")
        for holder in "abc":
            refused(store, CLAIM, holder, Wait(Kind.BLOCK, session=S))
            clock.advance(0.001)
        resumed(store)
        assert len(store.ask(S).granted) == 3

    def test_of_many_grants_all_are_prolonged(self, store: Store, clock: Clock) -> None:
        """Q4: a call of a store may need several turns for them."""
        many = 250
        claims = [claim(key=str(n)) for n in range(many)]
        store.ask(S)
        for n, one in enumerate(claims):
            admitted(store, one, f"holder-{n}")
        waits = [held(store, f"wait-{n}", S, one) for n, one in enumerate(claims)]
        for n, one in enumerate(claims):
            store.release(f"holder-{n}", one)
        clock.advance(GRANT_S / 2)
        reply = store.ask(S, begun=waits, to_forecast=waits[:1])
        assert (reply.granted, reply.slept) == (nonces(*waits), False)
        clock.advance(GRANT_S / 2)
        for _ in range(many // 100 + 1):
            store.reap()
        assert store.ask(S).granted == nonces(*waits)

    def test_of_a_dead_session_its_room_is_forgotten(self, store: Store, clock: Clock) -> None:
        """Q2: it slept for a lease, so its next question says anew what it has room for."""
        store.ask(S, room=1)
        clock.advance(LEASE)
        store.ask(T)
        waits = waiting(store, clock, "ab")
        store.ask(S)
        store.name(S, waits)
        resumed(store)
        assert store.ask(S).granted == nonces(*waits)
        examine_line(store)
