"""What the tests of lost hand-overs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from celery_semaphore.core.refusal import Reason
from tests.conformance.acquisition import admitted, claim, why
from tests.conformance.suite import Suite

if TYPE_CHECKING:
    from celery_semaphore.core.permit import Permit
    from celery_semaphore.core.store import Store


def names(store: Store, resource: str = "api") -> list[str]:
    return sorted(held.holder for held in store.snapshot(resource).holders)


class HandedOver(Suite):
    """Loses the moments in which a permit went from one holder to the next."""

    def handed_over(self, store: Store) -> tuple[Permit, Permit]:
        """Return the permit of the dead "a", which the store remembers, and that of the living "b"."""
        dead = admitted(store, claim(), "a")
        lose_the_rest = self.remember(store)
        store.release("a", claim())
        living = admitted(store, claim(), "b")
        lose_the_rest()
        return dead, living

    def handed_over_before_a_lower_limit(self, store: Store) -> tuple[list[Permit], Permit, Permit]:
        """Declare 4 in the old version of a program, and 2 in the new one; lose what came after.

        Return the permits of the living "a", "b" and "c", of the dead "d", and of "e", which followed "d".
        """
        living = [admitted(store, claim(4), holder) for holder in "abc"]
        dead = admitted(store, claim(4), "d")
        assert why(store, claim(2), "x") is Reason.SATURATED
        lose_the_rest = self.remember(store)
        store.release("d", claim(4))
        store.set_limit(4, "api")  # lost, too
        follower = admitted(store, claim(4), "e")
        lose_the_rest()
        return living, dead, follower
