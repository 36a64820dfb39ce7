"""Test a store of a newer format: this release admits nothing there, and does not change it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.permit import Kind, MessageId, Reason, Renewal, Wait
from celery_semaphore.core.session import HeldWait
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.errors import StoreUnavailable
from tests.conformance.acquisition import admitted, came_back, claim, named, parked, requeued, why
from tests.conformance.grants import messages, reaped, released
from tests.conformance.suite import GRACE, LEASE, TAKE_UP, Suite

if TYPE_CHECKING:
    from collections.abc import Callable

    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock

NEWER = FORMAT + 1
SAID = re.compile(rf"format {NEWER}.* up to format {FORMAT}: upgrade celery_semaphore")
TICKET = Ticket("x", 0, 1_700_000_000_000_000)
ELSE: dict[str, Callable[[Store], object]] = {
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

    def test_permits_are_renewed(self, store: Store, clock: Clock) -> None:
        both = claim(3, weight=2) + claim(of="disk")
        permit = admitted(store, both, "a")
        self.set_format(store, NEWER)
        for _ in range(3):
            clock.advance(LEASE - 1)
            assert store.renew([permit]) == {"a": Renewal.OK}
        self.set_format(store, FORMAT)
        for resource, weight in (("api", 2), ("disk", 1)):
            (held,) = store.snapshot(resource).holders
            assert (held.holder, held.weight, held.token) == ("a", weight, permit.token)
            assert held.expires_at == clock.now + LEASE
        assert store.renew([permit]) == {"a": Renewal.OK}

    def test_what_is_not_there_is_lost(self, store: Store, clock: Clock) -> None:
        """Restore nothing: a new record would have an old format."""
        permits = [admitted(store, claim(9) + claim(9, of="disk"), holder) for holder in "abc"]
        store.release("a", claim(9) + claim(9, of="disk"))
        store.release("b", claim(9))
        self.set_format(store, NEWER)
        renewals = {"a": Renewal.LOST, "b": Renewal.LOST, "c": Renewal.OK}
        assert store.renew(permits) == renewals
        clock.advance(LEASE)
        assert store.renew(permits) == dict.fromkeys("abc", Renewal.LOST)
        self.set_format(store, FORMAT)
        store.snapshot("api")
        clock.advance(GRACE)  # calls of an older format are not noted: a silence (A17)
        assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 0

    def test_permits_are_given_back(self, store: Store) -> None:
        both = claim(3, weight=2) + claim(of="disk")
        permit = admitted(store, both, "a")
        self.set_format(store, NEWER)
        for _ in range(2):
            assert store.release("a", both).outgoing == frozenset()
            assert store.renew([permit]) == {"a": Renewal.LOST}
        self.set_format(store, FORMAT)
        assert why(store, both, "a") is Reason.RELEASED
        assert admitted(store, both, "b").token > permit.token
        assert store.release("b", both).outgoing == frozenset()
        assert list(store.resources()) == []

    def test_what_was_given_back_is_handed_on_at_the_next_look(self, store: Store) -> None:
        """Leave the hand-on to a newer worker, for lines may have another format; until then no reap claims it."""
        admitted(store, claim(), "a")
        parked(store, claim(), "b")
        self.set_format(store, NEWER)
        assert store.release("a", claim()).outgoing == frozenset()
        assert store.reap() == frozenset()
        self.set_format(store, FORMAT)
        assert store.snapshot("api").holders == ()
        assert messages(reaped(store)) == [b"b"]

    def test_a_waiter_is_not_taken_out(self, store: Store) -> None:
        """Leave its ticket and its grant in the store."""
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        assert messages(released(store, "a", claim())) == [b"b"]
        later = requeued(store, claim(), "c")
        self.set_format(store, NEWER)
        for holder in (ticket, later):
            assert store.release(holder, claim()).outgoing == frozenset()
        self.set_format(store, FORMAT)
        seen = store.snapshot("api")
        assert [held.ticket for held in seen.holders] == [ticket]
        assert [waiter.ticket for waiter in seen.waiters] == [later]

    def test_that_a_task_ran_is_remembered(self, store: Store) -> None:
        ran = MessageId("t", "a.1")
        store.acquire(claim(), "a", None, ran)
        self.set_format(store, NEWER)
        store.release("a", claim(), ran)
        self.set_format(store, FORMAT)
        copy = store.acquire(claim(), "b", None, MessageId("t", "b.1"))
        assert getattr(copy, "reason", copy) is Reason.COPY

    def test_nothing_is_reaped(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        named(store, "b", ends_in=1.0)
        requeued(store, claim(), "c")
        self.set_format(store, NEWER)
        clock.advance(LEASE - 1)
        assert store.reap() == frozenset()
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
            assert store.reap() == frozenset()
        assert store.epoch == known
        self.set_format(store, FORMAT)
        assert why(store, claim(9), "c") is Reason.RECOVERING

    def test_a_new_epoch_confirms_nothing_here(self, store: Store) -> None:
        """Restore no permit of the old epoch: only newer workers can tell whether it fits."""
        permit = admitted(store, claim(9), "a")
        lose_the_rest = self.remember(store)
        lose_the_rest()
        assert why(store, claim(9), "b") is Reason.RECOVERING
        self.set_format(store, NEWER)
        assert store.renew([permit]) == {"a": Renewal.LOST}
        self.set_format(store, FORMAT)
        assert store.renew([permit]) == {"a": Renewal.OK}

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
