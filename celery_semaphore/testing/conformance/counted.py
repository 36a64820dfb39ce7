"""Count what is at a resource, and compare it with a snapshot."""

# ruff: noqa: S101 - asserting figures is what tests do

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ...core.permit import Totals

if TYPE_CHECKING:
    from ...core.store import Store

NONE = Totals("api", None, False, 0, 0, 0, 0, 0, 0, None, 0, None)  # noqa: FBT003 - the fields in their order


def counted(store: Store, resource: str = "api") -> Totals:
    """Return the totals, which agree with a snapshot of the same instant."""
    (totals,) = store.totals([resource])
    seen = store.snapshot(resource, waiters=1000)
    holders = [(one.granted, one.weight) for one in seen.holders]
    assert totals.held == sum(weight for granted, weight in holders if not granted)
    assert totals.granted == sum(weight for granted, weight in holders if granted)
    assert (totals.limit, totals.set_by_operator) == (seen.limit, seen.set_by_operator)
    assert totals.waiting == seen.waiting
    began = min((waiter.ticket.since for waiter in seen.waiters), default=None)
    assert totals.oldest_wait == (None if began is None else pytest.approx(seen.at - began))
    assert totals.parked + totals.reachable >= sum(waiter.reachable for waiter in seen.waiters)
    return totals


def line(totals: Totals) -> tuple[int, int, int, int]:
    return totals.parked, totals.reachable, totals.in_transit, totals.set_aside
