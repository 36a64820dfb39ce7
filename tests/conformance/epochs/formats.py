"""Test a store of a newer format: this release admits nothing there, and does not change it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from tests.conformance.acquisition import admitted, came_back, claim, named, parked, requeued, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.suite import LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

NEWER = FORMAT + 1
SAID = re.compile(rf"format {NEWER}.* up to format {FORMAT}: upgrade celery_semaphore")
TICKET = Ticket("x", 0, 1_700_000_000_000_000)
ELSE: dict[str, Callable[[Store], object]] = {
    "declare": lambda store: store.declare({"api": 1}, "w"),
    "attach": lambda store: store.attach(TICKET, claim(), b"x"),
    "take": lambda store: store.take(frozenset({"api"})),
    "end": lambda store: store.end(["c"]),
    "promote": lambda store: store.promote([TICKET], "api"),
    "set_limit": lambda store: store.set_limit(7, "api"),
    "set_lease": lambda store: store.set_lease(7),
    "pause": lambda store: store.pause("api"),
    "resume": lambda store: store.resume("api"),
    "decisions": lambda store: store.decisions(),
    "ask": lambda store: store.ask("s"),
    "name": lambda store: store.name("s", [HeldWait(TICKET, tuple(claim()))]),
    "sleep": lambda store: store.sleep("s"),
    "snapshot": lambda store: store.snapshot("api"),
    "snapshots": lambda store: list(store.snapshots(["api"])),
    "totals": lambda store: store.totals(["api"]),
}


class Formats(Suite):
    @pytest.mark.parametrize("wait", [None, Wait(Kind.REQUEUE), Wait(Kind.PARK), Wait(Kind.BLOCK)])
    def test_a_newer_format_admits_nothing(self, store: Store, wait: Wait | None) -> None:
        admitted(store, claim(2), "a")
        known = store.epoch
        self.set_format(store, NEWER)
        for wanted in (claim(2), claim(9), claim(of="new"), claim(2) + claim(of="new")):
            with pytest.raises(StoreUnavailable, match=SAID) as caught:
                store.acquire(wanted, "b", wait)
            assert SAID.search(caught.value.reason)
        assert store.epoch == known
        self.set_format(store, FORMAT)
        seen = store.snapshot("api")
        assert ([held.holder for held in seen.holders], seen.waiting, seen.limit) == (["a"], 0, 2)
        assert list(store.resources()) == ["api"]

    def test_who_waits_keeps_its_place_meanwhile(self, store: Store) -> None:
        admitted(store, claim(), "a")
        ticket = requeued(store, claim(), "b")
        self.set_format(store, NEWER)
        with pytest.raises(StoreUnavailable, match=SAID):
            store.acquire(claim(), "b2", came_back(ticket))
        self.set_format(store, FORMAT)
        assert [waiter.ticket for waiter in store.snapshot("api").waiters] == [ticket]

    def test_permits_last_as_long_as_their_leases(self, store: Store, clock: Clock) -> None:
        """Renew and release nothing: only newer processes can tell what else that changes."""
        both = claim(3, weight=2) + claim(of="disk")
        permit = admitted(store, both, "a")
        ends = clock.now + LEASE
        self.set_format(store, NEWER)
        clock.advance(LEASE / 3)
        for holder in ("a", TICKET):
            with pytest.raises(StoreUnavailable, match=SAID):
                store.release(holder, both, MessageId("t", "a.1"))
        with pytest.raises(StoreUnavailable, match=SAID):
            store.renew([permit])
        self.set_format(store, FORMAT)
        for resource in ("api", "disk"):
            (held,) = store.snapshot(resource).holders
            assert (held.holder, held.expires_at) == ("a", ends)
        assert store.renew([permit]) == {"a": Renewal.OK}

    def test_nothing_is_reaped(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        named(store, "b", ends_in=1.0)
        requeued(store, claim(), "c")
        self.set_format(store, NEWER)
        clock.advance(LEASE - 1)
        with pytest.raises(StoreUnavailable, match=SAID):
            store.reap()
        self.set_format(store, FORMAT)
        seen = store.snapshot("api")
        assert ([held.holder for held in seen.holders], seen.waiting) == (["a"], 2)
        clock.advance(1)
        assert messages(reaped(store)) == [b"b"]

    @pytest.mark.parametrize("call", ELSE.values(), ids=ELSE)
    def test_all_else_is_refused(self, store: Store, call: Callable[[Store], object]) -> None:
        admitted(store, claim(), "a")
        for holder in "bc":
            named(store, holder)
        store.release("a", claim())
        self.set_format(store, NEWER)
        with pytest.raises(StoreUnavailable, match=SAID):
            call(store)
        self.set_format(store, FORMAT)
        assert store.decisions() == {}
        (held,) = store.snapshot("api").holders
        assert (held.granted, store.snapshot("api").waiting) == (True, 1)
        assert messages(store.take(frozenset({"api"}))) == [b"b"]

    def test_what_was_sent_comes_again(self, store: Store, clock: Clock) -> None:
        """Send it twice rather than never: the second message is recognised as a copy."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        grants = released(store, "a", claim())
        self.set_format(store, NEWER)
        with pytest.raises(StoreUnavailable, match=SAID):
            store.sent(grants)
        self.set_format(store, FORMAT)
        clock.advance(TAKE_UP)
        assert messages(reaped(store)) == [b"b"]

    def test_a_restart_does_not_change_it(self, store: Store) -> None:
        """Begin no new epoch at the first call after it."""
        admitted(store, claim(9), "a")
        self.set_format(store, NEWER)
        lose_the_rest = self.remember(store)
        lose_the_rest()
        known = store.epoch
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match=SAID):
                store.acquire(claim(9), "b")
            with pytest.raises(StoreUnavailable, match=SAID):
                store.reap()
        assert store.epoch == known
        self.set_format(store, FORMAT)
        assert why(store, claim(9), "c") is Reason.RECOVERING

    def test_the_check_says_it(self, store: Store) -> None:
        admitted(store, claim(), "a")
        before = store.check()
        self.set_format(store, NEWER)
        (said,) = [each for each in store.check() if each not in before]
        assert SAID.search(said)
        assert said.startswith("Limited tasks wait: ")
        self.set_format(store, FORMAT)
        assert store.check() == before

    def test_the_format_before_is_read(self, store: Store) -> None:
        """Keep that format, for processes may still run that can read no other."""
        permit = admitted(store, claim(), "a")
        self.set_format(store, FORMAT - 1)
        assert why(store, claim(), "b", Wait(Kind.REQUEUE)) is Reason.SATURATED
        assert store.renew([permit]) == {"a": Renewal.OK}
        store.release("a", claim())
        admitted(store, claim(), "c")
