"""What the tests of lost hand-overs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .acquisition import admitted, claim
from .suite import Suite

if TYPE_CHECKING:
    from ...core.permit import Permit
    from ...core.store import Store


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
