"""Test losses on several claims, one after the other, and of grants."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, came_back, claim, parked, refused, why
from tests.conformance.epochs.handed_over import HandedOver, names
from tests.conformance.grants import messages, reaped, released
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import GRACE, LEASE, TAKE_UP

if TYPE_CHECKING:
    from celery_semaphore.core.permit import Permit
    from celery_semaphore.core.store import Store
    from celery_semaphore.core.ticket import Ticket
    from celery_semaphore.testing.clock import Clock


class RepeatedLosses(HandedOver):
    def lost_take_up(self, store: Store) -> tuple[Ticket, Permit]:
        """Take the grant of "b" up, release it and admit "c"; lose all that, but not the grant.

        Return the ticket of "b" and the permit of the living "c".
        """
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        store.sent(released(store, "a", claim()))
        lose_the_rest = self.remember(store)
        admitted(store, claim(), "b2", came_back(ticket, Kind.PARK))
        store.release("b2", claim())
        living = admitted(store, claim(), "c")
        lose_the_rest()
        return ticket, living

    def test_several_claims(self, store: Store, clock: Clock) -> None:
        both = claim() + claim(of="disk")
        dead = admitted(store, both, "a")
        lose_the_rest = self.remember(store)
        store.release("a", both)
        living = [admitted(store, claim(), "b"), admitted(store, claim(of="disk"), "c")]
        lose_the_rest()
        assert store.renew([living[1]]) == {"c": Renewal.RESTORED}
        assert store.renew([dead]) == {"a": Renewal.LOST}
        assert names(store) == []
        assert store.renew(living) == {"b": Renewal.RESTORED, "c": Renewal.OK}
        clock.advance(GRACE)
        assert [names(store), names(store, "disk")] == [["b"], ["c"]]
        assert why(store, both, "d") is Reason.SATURATED

    def test_the_living_has_several_claims(self, store: Store) -> None:
        both = claim() + claim(of="disk")
        admitted(store, claim(of="disk"), "a")
        lose_the_rest = self.remember(store)
        store.release("a", claim(of="disk"))
        living = admitted(store, both, "b")
        lose_the_rest()
        assert store.renew([living]) == {"b": Renewal.RESTORED}
        assert [names(store), names(store, "disk")] == [["b"], ["a", "b"]]

    def test_one_loss_after_the_other(self, store: Store, clock: Clock) -> None:
        """Remember a restored permit in the next epoch."""
        _, living = self.handed_over(store)
        store.renew([living])
        clock.advance(1)
        lose_the_rest = self.remember(store)
        store.release("b", claim())
        lose_the_rest()
        assert store.renew([living]) == {"b": Renewal.OK}
        store.release("b", claim())
        assert store.renew([living]) == {"b": Renewal.LOST}
        assert names(store) == ["a"]

    @pytest.mark.parametrize("epochs", [1, 2])
    def test_nor_does_the_dead_holder_come_back_then(self, store: Store, epochs: int) -> None:
        """Restore only one of the two: both are remembered, but only one can have been alive."""
        dead, living = self.handed_over(store)
        assert store.renew([living]) == {"b": Renewal.RESTORED}
        for _ in range(epochs):
            self.remember(store)()
            assert store.renew([living]) == {"b": Renewal.OK}
        assert store.renew([dead]) == {"a": Renewal.LOST}
        assert names(store) == ["b"]

    @pytest.mark.parametrize("epochs", [1, 2])
    def test_nor_do_both_live_if_the_dead_holder_comes_first(
        self, store: Store, epochs: int
    ) -> None:
        dead, living = self.handed_over(store)
        store.renew([living])
        for _ in range(epochs):
            self.remember(store)()
        assert store.renew([dead, living]) == {"a": Renewal.OK, "b": Renewal.LOST}
        assert names(store) == ["a"]

    def test_of_two_losses_at_once_a_lowered_limit_takes_nothing_from_the_living(
        self, store: Store
    ) -> None:
        """Give one of the holders no time to renew between the losses."""
        living, dead, restored = self.handed_over_before_a_lower_limit(store)
        said = store.renew([restored, *living[:2]])
        assert said == {"e": Renewal.RESTORED, "a": Renewal.OK, "b": Renewal.OK}
        self.remember(store)()
        order = [living[2], *living[:2], restored]
        assert store.renew(order) == dict.fromkeys("cabe", Renewal.OK)
        assert store.renew([dead]) == {"d": Renewal.LOST}

    def test_what_was_restored_long_before_survives_with_all_others(
        self, store: Store, clock: Clock
    ) -> None:
        """A lease after the grace no dead holder is left beside it: then an operator's lower limit takes nothing."""
        living = [admitted(store, claim(3), holder) for holder in "abc"]
        self.forget(store)
        assert store.renew(living) == dict.fromkeys("abc", Renewal.RESTORED)
        clock.advance(GRACE)
        for _ in range(4):
            assert store.renew(living) == dict.fromkeys("abc", Renewal.OK)
            clock.advance(LEASE / 3)
        store.set_limit(1, "api")
        assert store.renew(living) == dict.fromkeys("abc", Renewal.OK)
        self.remember(store)()
        assert store.renew(living) == dict.fromkeys("abc", Renewal.OK)

    def test_what_a_higher_limit_admitted_between_two_losses_lives(
        self, store: Store, clock: Clock
    ) -> None:
        dead, living = self.handed_over(store)
        store.renew([living])
        clock.advance(GRACE)
        store.renew([living])
        store.set_limit(3, "api")
        newcomer = admitted(store, claim(), "c")
        store.set_limit(1, "api")
        self.remember(store)()
        said = store.renew([living, newcomer, dead])
        assert said == {"b": Renewal.OK, "c": Renewal.OK, "a": Renewal.LOST}

    def test_a_grant_of_before_is_not_taken_up_beside_the_living(
        self, store: Store, clock: Clock
    ) -> None:
        ticket, living = self.lost_take_up(store)
        assert store.renew([living]) == {"c": Renewal.RESTORED}
        answer = refused(store, claim(), "b3", came_back(ticket, Kind.PARK))
        assert (answer.reason, answer.ticket) == (Reason.RECOVERING, ticket)
        assert names(store) == ["c"]
        clock.advance(GRACE)
        assert store.renew([living]) == {"c": Renewal.OK}
        again = came_back(ticket, Kind.PARK)
        assert why(store, claim(), "b4", again) is Reason.SATURATED
        store.release("c", claim())
        admitted(store, claim(), "b5", again)

    def test_nor_when_it_comes_before_the_living(self, store: Store, clock: Clock) -> None:
        ticket, living = self.lost_take_up(store)
        assert why(store, claim(), "b3", came_back(ticket, Kind.PARK)) is Reason.RECOVERING
        clock.advance(1)
        assert store.renew([living]) == {"c": Renewal.RESTORED}

    def test_a_grant_of_before_keeps_its_place(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(), "a")
        ticket = parked(store, claim(), "b")
        parked(store, claim(), "c")
        store.sent(released(store, "a", claim()))
        self.remember(store)()
        again = came_back(ticket, Kind.PARK)
        assert why(store, claim(), "b2", again) is Reason.RECOVERING
        assert store.attach(ticket, claim(), b"b") == frozenset()
        clock.advance(GRACE)
        assert messages(reaped(store)) == [b"b"]
        permit = admitted(store, claim(), "b3", again)
        assert messages(released(store, "b3", permit.claims)) == [b"c"]

    @pytest.mark.parametrize("attached", [False, True])
    def test_a_grant_of_a_session_does_not_fill_the_place_of_the_living(
        self, store: Store, clock: Clock, *, attached: bool
    ) -> None:
        store.ask(S)
        admitted(store, claim(), "a")
        ticket = held(store, "b").ticket
        clock.advance(0.001)
        parked(store, claim(), "c")
        assert released(store, "a", claim()) == []
        lose_the_rest = self.remember(store)
        admitted(store, claim(), "b2", came_back(ticket))
        grants = released(store, "b2", claim())
        store.sent(grants)
        living = admitted(store, claim(), "c2", came_back(grants[0].ticket, Kind.PARK))
        lose_the_rest()
        if attached:
            store.attach(ticket, claim(), b"b")
        assert store.renew([living]) == {"c2": Renewal.RESTORED}
        assert why(store, claim(), "b3", Wait(Kind.REQUEUE, ticket=ticket)) is Reason.RECOVERING
        assert names(store) == ["c2"]
        clock.advance(TAKE_UP)
        assert store.renew([living]) == {"c2": Renewal.OK}
