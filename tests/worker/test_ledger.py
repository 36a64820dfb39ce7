"""The books of a worker's permits, without a worker."""

from __future__ import annotations

from celery_semaphore.core.events import Announcer
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Claim, Permit
from celery_semaphore.testing import MemoryStore
from celery_semaphore.worker.permits.ledger import Ledger
from celery_semaphore.worker.permits.releaser import Releaser

API = (Claim("api", None, 5),)


def test_permits_are_of_those_that_have_them() -> None:
    """Oldest first; what only asked for one has none."""
    store, announce = MemoryStore(), Announcer()
    ledger = Ledger(LeaseKeeper(store, announce), Releaser(store), announce, lambda _: None)
    for holder in ("a", "b", "c"):
        ledger.asked(holder, API)
    for since, holder in ((2.0, "c"), (1.0, "b")):
        permit = store.acquire(API, holder)
        assert isinstance(permit, Permit)
        ledger.held(permit, since)
    assert [each.holder for each in ledger.permits()] == ["b", "c"]
    assert ledger.refused("b") == API
    assert [each.holder for each in ledger.permits()] == ["c"]
