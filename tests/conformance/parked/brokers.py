"""Test that a parked message belongs to its broker, and that a store knows the brokers of its workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.names import LONGEST_NAME
from celery_semaphore.core.store import BROKER_FOR_S
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import SemaphoreError
from tests.conformance.acquisition import admitted, claim, refused
from tests.conformance.grants import messages
from tests.conformance.suite import TAKE_UP, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.claim import Claim
    from celery_semaphore.core.store import Outgoing, Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock

A, B, ANY = "redis://a:6379/0", "redis://b:6379/0", ""
ODD = ["x", "a b", "amqp://é:5672/%2F", "\x00", "{b}", "%", "q" * 255]


def parked_for(store: Store, broker: str, holder: str, claims: list[Claim] | None = None) -> Ticket:
    """Refuse the holder, and attach a message of this broker."""
    wanted = claims or claim()
    ticket = refused(store, wanted, holder, Wait(Kind.PARK)).ticket
    assert ticket is not None
    assert not store.attach(ticket, wanted, holder.encode(), name=holder, broker=broker)
    return ticket


def opened(store: Store, *parked: tuple[str, str], limit: int = 100) -> Outgoing:
    """Park these holders of brokers behind one that runs, and grant them all."""
    admitted(store, claim(), "busy")
    for broker, holder in parked:
        parked_for(store, broker, holder)
    return store.set_limit(limit, "api")


class Brokers(Suite):
    def test_each_broker_takes_its_own(self, store: Store) -> None:
        """K4: interleaved in the line; those of no broker go to the first caller."""
        outgoing = opened(store, (A, "a1"), (B, "b1"), (ANY, "c"), (A, "a2"), (B, "b2"))
        assert outgoing == {"api"}
        assert messages(store.take(outgoing, B)) == [b"b1", b"b2", b"c"]
        assert store.take(outgoing, B) == []
        assert messages(store.take(outgoing, A)) == [b"a1", b"a2"]
        assert not store.reap()

    def test_a_caller_without_a_broker_takes_all(self, store: Store) -> None:
        outgoing = opened(store, (A, "a"), (B, "b"), (ANY, "c"))
        assert messages(store.take(outgoing)) == [b"a", b"b", b"c"]

    def test_what_stays_is_found_by_each_sweep(self, store: Store, clock: Clock) -> None:
        """K4: by the next sweep of a worker of its broker, however many others sweep before."""
        outgoing = opened(store, (A, "a"))
        assert store.take(outgoing, B) == []
        for _ in range(3):
            clock.advance(2.0)
            assert store.reap() == {"api"}
            assert store.take(outgoing, B) == []
        clock.advance(2.0)
        assert store.reap() == {"api"}
        (grant,) = store.take(outgoing, A)
        assert grant.payload == b"a"
        assert grant.token

    def test_a_grant_of_a_broker_without_workers_ends(self, store: Store, clock: Clock) -> None:
        """E7: its entry is void then for any caller; the wait is granted again."""
        outgoing = opened(store, (A, "a"))
        clock.advance(TAKE_UP)
        assert store.take(outgoing, B) == []
        assert store.reap() == {"api"}
        assert messages(store.take(outgoing, A)) == [b"a"]

    def test_one_that_ended_belongs_to_its_broker(self, store: Store) -> None:
        admitted(store, claim(), "busy")
        parked_for(store, A, "a")
        outgoing = store.end(["a"])
        assert store.take(outgoing, B) == []
        (over,) = store.take(outgoing, A)
        assert (over.payload, over.token) == (b"a", 0)

    def test_a_wait_that_is_refused_again_keeps_its_broker(self, store: Store) -> None:
        """Deliver it once more before it was acknowledged: its message is in the store already."""
        admitted(store, claim(), "busy")
        ticket = parked_for(store, A, "a")
        refused(store, claim(), "a", Wait(Kind.PARK, ticket=ticket))
        outgoing = store.set_limit(2, "api")
        assert store.take(outgoing, B) == []
        assert messages(store.take(outgoing, A)) == [b"a"]

    def test_a_wait_that_moves_keeps_its_broker(self, store: Store) -> None:
        """H8: its other claim refuses it when its turn comes."""
        both = claim() + claim(of="disk")
        admitted(store, claim(), "busy")
        parked_for(store, A, "a", both)
        admitted(store, claim(of="disk"), "full")
        assert not store.release("busy", claim()).outgoing
        outgoing = store.release("full", claim(of="disk")).outgoing
        assert store.take(outgoing, B) == []
        assert messages(store.take(outgoing, A)) == [b"a"]

    def test_the_newest_message_says_the_broker(self, store: Store) -> None:
        admitted(store, claim(), "busy")
        ticket = parked_for(store, A, "a")
        assert not store.attach(ticket, claim(), b"moved", name="a", broker=B)
        outgoing = store.set_limit(2, "api")
        assert store.take(outgoing, A) == []
        assert messages(store.take(outgoing, B)) == [b"moved"]

    @pytest.mark.parametrize("broker", ODD)
    def test_a_broker_may_have_any_name(self, store: Store, broker: str) -> None:
        outgoing = opened(store, (broker, "a"), (A, "b"))
        assert messages(store.take(outgoing, broker)) == [b"a"]
        assert store.brokers(broker) == {broker}

    def test_a_name_of_a_broker_that_is_too_long_is_refused(self, store: Store) -> None:
        admitted(store, claim(), "busy")
        ticket = refused(store, claim(), "a", Wait(Kind.PARK)).ticket
        assert ticket is not None
        for call in (
            lambda name: store.attach(ticket, claim(), b"a", broker=name),
            store.brokers,
        ):
            with pytest.raises(SemaphoreError, match="the name of a broker"):
                call("b" * (LONGEST_NAME + 1))

    def test_the_brokers_are_those_that_were_named(self, store: Store) -> None:
        assert store.brokers() == frozenset()
        assert store.brokers(A) == {A}
        assert store.brokers(B) == store.brokers() == {A, B}

    def test_a_broker_counts_for_an_hour(self, store: Store, clock: Clock) -> None:
        """K5: another one that is named meanwhile changes nothing."""
        store.brokers(A)
        clock.advance(BROKER_FOR_S / 2)
        assert store.brokers(B) == {A, B}
        clock.advance(BROKER_FOR_S / 2 - 0.001)
        assert store.brokers() == {A, B}
        clock.advance(0.001)
        assert store.brokers() == {B}
        assert store.brokers(A) == {A, B}

    def test_no_broker_counts_for_the_length_of_a_step_back(
        self, store: Store, clock: Clock
    ) -> None:
        store.brokers(A)
        clock.advance(-2 * BROKER_FOR_S)
        assert store.brokers(B) == {B}

    def test_brokers_that_a_store_forgot_are_named_again(self, store: Store) -> None:
        store.brokers(A)
        self.forget(store)
        assert store.brokers() == frozenset()
        assert store.brokers(A) == {A}
