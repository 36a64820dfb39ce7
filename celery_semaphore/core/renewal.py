"""Tell the stores which calls must not wait behind others: a permit is lost if its renewal is late."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

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
