"""The server's clock, as callers with different leases see it."""

from __future__ import annotations

import pytest

from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions

from .conftest import claim


@pytest.fixture(params=["valkey", "embedded_postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param).url
    return found


def test_a_shorter_lease_cuts_no_lease_of_a_longer_one(url: str) -> None:
    """As while a new `semaphore_lease` is deployed: the old workers renew a third of theirs later."""
    old, new = (
        store_from_url(url, StoreOptions(lease=30.0)),
        store_from_url(url, StoreOptions(lease=4.0)),
    )
    permit = old.acquire(claim(), "old")
    assert isinstance(permit, Permit)
    assert isinstance(new.acquire(claim(), "new", Wait(Kind.REQUEUE)), Refusal)
    new.reap()
    (held,) = new.snapshot("api").holders
    assert held.expires_at > new.snapshot("api").at + 30.0 / 3 + 1.0
    assert old.renew([permit]) == {"old": Renewal.OK}
    old.close()
    new.close()
