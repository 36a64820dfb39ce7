"""Test admission: limits, weights, several claims, tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from tests.conformance.acquisition import admitted, claim, refused, why
from tests.conformance.suite import LEASE, Suite

if TYPE_CHECKING:
    from celery_semaphore.core.store import Store
    from celery_semaphore.testing.clock import Clock


class Admission(Suite):
    def test_admits_up_to_the_limit(self, store: Store) -> None:
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "b")
        refusal = refused(store, claim(2), "c")
        assert refusal.reason is Reason.SATURATED
        assert (refusal.limit, refusal.occupied, refusal.ticket) == (2, 2, None)
        assert refusal.claim == claim(2)[0]

    def test_a_permit_says_what_it_is(self, store: Store, clock: Clock) -> None:
        permit = admitted(store, claim(2), "a")
        assert (permit.holder, permit.claims) == ("a", tuple(claim(2)))
        assert (permit.acquired_at, permit.expires_at) == (clock.now, clock.now + LEASE)
        assert permit.epoch == store.epoch

    def test_a_release_frees_the_permit(self, store: Store) -> None:
        admitted(store, claim(), "a")
        assert not store.release("a", claim()).outgoing
        admitted(store, claim(), "b")
        assert why(store, claim(), "c") is Reason.SATURATED

    def test_keys_and_semaphores_do_not_share(self, store: Store) -> None:
        admitted(store, claim(), "a")
        admitted(store, claim(key="x"), "b")
        admitted(store, claim(key="y"), "c")
        admitted(store, claim(of="other"), "d")

    def test_weights_add_up(self, store: Store) -> None:
        admitted(store, claim(5, weight=3), "a")
        refusal = refused(store, claim(5, weight=3), "b")
        assert (refusal.reason, refusal.occupied) == (Reason.SATURATED, 3)
        admitted(store, claim(5, weight=2), "c")
        assert refused(store, claim(5), "d").occupied == 5
        store.release("a", claim(5, weight=3))
        admitted(store, claim(5, weight=3), "e")

    def test_what_a_heavy_holder_leaves_is_free(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(4, weight=4), "a")
        clock.advance(LEASE)
        admitted(store, claim(4), "b")
        assert store.snapshot("api").occupied == 1

    def test_a_weight_above_the_limit_is_unsatisfiable(self, store: Store) -> None:
        assert why(store, claim(2, weight=3), "a") is Reason.UNSATISFIABLE
        admitted(store, claim(2, weight=2), "b")

    def test_several_claims_are_admitted_together(self, store: Store) -> None:
        both = claim(2) + claim(1, of="disk")
        permit = admitted(store, both, "a")
        assert permit.claims == tuple(both)
        assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 1
        refusal = refused(store, both, "b")
        assert (refusal.claim, refusal.occupied) == (both[1], 1)

    def test_a_refused_claim_takes_nothing_of_the_others(self, store: Store) -> None:
        admitted(store, claim(of="disk"), "a")
        assert refused(store, claim() + claim(of="disk"), "b").claim == claim(of="disk")[0]
        assert store.snapshot("api").occupied == 0
        admitted(store, claim(), "c")

    def test_a_release_frees_all_claims(self, store: Store) -> None:
        both = claim() + claim(of="disk")
        admitted(store, both, "a")
        store.release("a", both)
        admitted(store, claim(), "b")
        admitted(store, claim(of="disk"), "c")

    def test_two_claims_on_one_key_add_up(self, store: Store) -> None:
        admitted(store, claim(3) + claim(3, weight=2), "a")
        assert store.snapshot("api").occupied == 3
        assert why(store, claim(3) + claim(3, weight=3), "b") is Reason.UNSATISFIABLE

    def test_no_claims_are_a_mistake(self, store: Store) -> None:
        with pytest.raises(ValueError, match="claim"):
            store.acquire([], "a")

    @pytest.mark.parametrize("limit", [1, 2])
    def test_a_repeated_acquire_gives_the_same_permit(
        self, store: Store, clock: Clock, limit: int
    ) -> None:
        both = claim(limit) + claim(limit, of="disk")
        permit = admitted(store, both, "a")
        clock.advance(1)
        assert admitted(store, both, "a") == permit
        assert store.snapshot("api").occupied == 1

    def test_a_repeated_acquire_beside_room_for_others(self, store: Store, clock: Clock) -> None:
        admitted(store, claim(3), "a")
        permit = admitted(store, claim(3), "b")
        clock.advance(1)
        assert admitted(store, claim(3), "b") == permit
        assert store.snapshot("api").occupied == 2

    def test_a_repeated_release_frees_one_permit(self, store: Store) -> None:
        admitted(store, claim(2), "a")
        admitted(store, claim(2), "b")
        store.release("a", claim(2))
        store.release("a", claim(2))
        admitted(store, claim(2), "c")
        assert why(store, claim(2), "d") is Reason.SATURATED

    def test_a_stranger_releases_nothing(self, store: Store) -> None:
        admitted(store, claim(), "a")
        assert not store.release("stranger", claim()).outgoing
        assert why(store, claim(), "b") is Reason.SATURATED

    def test_who_released_never_acquires_again(self, store: Store) -> None:
        admitted(store, claim(), "a")
        store.release("a", claim())
        assert why(store, claim(), "a") is Reason.RELEASED
        assert store.snapshot("api").occupied == 0

    def test_a_late_acquire_after_its_release_is_refused(self, store: Store, clock: Clock) -> None:
        """Let the network deliver an acquire only after its release; its answer never came."""
        store.release("a", claim())
        clock.advance(LEASE - 1)
        assert why(store, claim(), "a") is Reason.RELEASED

    def test_released_on_one_claim_is_released(self, store: Store) -> None:
        store.release("a", claim(of="disk"))
        assert why(store, claim() + claim(of="disk"), "a") is Reason.RELEASED
        assert store.snapshot("api").occupied == 0

    def test_tokens_grow_within_one_instant(self, store: Store) -> None:
        tokens = []
        for n in range(20):
            tokens.append(admitted(store, claim(), str(n)).token)
            store.release(str(n), claim())
        assert tokens == sorted(set(tokens))

    def test_tokens_grow_on_every_resource_of_a_permit(self, store: Store) -> None:
        for n in range(20):
            admitted(store, claim(100), str(n))
        both = admitted(store, claim(100) + claim(100, of="disk"), "both").token
        assert admitted(store, claim(100, of="disk"), "disk").token > both
        assert admitted(store, claim(100), "api").token > both

    def test_tokens_grow_over_idleness_and_loss(self, store: Store, clock: Clock) -> None:
        tokens = [admitted(store, claim(), "a").token]
        store.release("a", claim())
        clock.advance(100 * LEASE)
        store.reap()
        tokens.append(admitted(store, claim(), "b").token)
        self.forget(store)
        assert why(store, claim(), "c") is Reason.RECOVERING
        clock.advance(LEASE)
        tokens.append(admitted(store, claim(), "d").token)
        assert tokens == sorted(set(tokens))

    def test_what_is_in_use_can_be_listed(self, store: Store) -> None:
        admitted(store, claim(), "a")
        admitted(store, claim(key="k") + claim(of="disk"), "b")
        assert sorted(store.resources()) == ["api", "api/k", "disk"]
        store.release("a", claim())
        assert sorted(store.resources()) == ["api/k", "disk"]

    def test_a_snapshot_tells_who_holds(self, store: Store, clock: Clock) -> None:
        first = admitted(store, claim(4, weight=2), "a")
        clock.advance(1)
        admitted(store, claim(4), "b")
        seen = store.snapshot("api")
        assert (seen.resource, seen.limit, seen.set_by_operator) == ("api", 4, False)
        assert (seen.occupied, seen.waiting, seen.at) == (3, 0, clock.now)
        assert [held.holder for held in seen.holders] == ["a", "b"]
        assert (seen.holders[0].token, seen.holders[0].weight) == (first.token, 2)
        assert seen.holders[0].acquired_at == clock.now - 1
        assert seen.holders[0].expires_at == first.expires_at
        assert not seen.holders[0].granted

    def test_many_are_seen_together(self, store: Store, clock: Clock) -> None:
        names = [f"of/{n}" for n in range(501)]  # more than one call of any store reads
        admitted(store, claim(of="of", key="500"), "a")
        for holder in "bc":
            refused(store, claim(of="of", key="500"), holder, Wait(Kind.REQUEUE))
        admitted(store, claim(of="of", key="7"), "d")
        clock.advance(1)
        seen = list(store.snapshots(iter(names)))
        assert [each.resource for each in seen] == names
        used = {each.resource: each for each in seen if each.limit is not None}
        assert used.keys() == {"of/7", "of/500"}
        assert used["of/7"] == store.snapshot("of/7")
        assert (used["of/500"].waiting, used["of/500"].waiters) == (2, ())
        assert [held.holder for held in used["of/500"].holders] == ["a"]
        assert list(store.snapshots([])) == []

    def test_a_snapshot_of_what_never_was(self, store: Store) -> None:
        seen = store.snapshot("unused")
        assert (seen.limit, seen.occupied, seen.mean_held) == (None, 0, None)
        assert (seen.holders, seen.waiters) == ((), ())
        assert list(store.resources()) == []
        admitted(store, claim(of="unused"), "a")
