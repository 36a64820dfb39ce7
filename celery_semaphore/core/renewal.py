"""Renew one permit, and tell the stores which calls must not wait behind others: a late renewal loses a permit."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..errors import ResourceBusy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .permit import Permit, Renewal
    from .store import Store

_is_renewing: ContextVar[bool] = ContextVar("is_renewing", default=False)


@contextmanager
def renewing() -> Iterator[None]:
    """Mark the calls of this block, in this thread or greenlet, as those that renew all leases."""
    before = _is_renewing.set(True)
    try:
        yield
    finally:
        _is_renewing.reset(before)


def is_renewing() -> bool:
    """Return whether the calls that are made here renew all leases."""
    return _is_renewing.get()


def renewed(store: Store, permit: Permit) -> Renewal:
    """Renew one permit; raise ``ResourceBusy`` if the store could not do it now, though it answered."""
    renewal = store.renew([permit]).get(permit.holder)
    if renewal is None:
        msg = f"{permit.holder}: the store could not renew the permit now"
        raise ResourceBusy(msg)
    return renewal
