"""What a release reads beside many waits with two claims."""

from typing import Any

import pytest

from celery_semaphore.testing.clock import Clock
from celery_semaphore.testing.conformance.suite import LEASE, TAKE_UP
from tests.stores.postgresql.conftest import OpenAt
from tests.stores.postgresql.test_sessions import pages
from tests.stores.test_standing_for import FEW, MANY, singles_behind, wait_for_both
from tests.support.postgres import PostgresServer

RELEASE = "v1_release({call}, 'a', '', NULL, 0, '{{api}}')"
REAP = "v1_reap({call}, '{{api,disk}}')"  # the second call of this release, which has all claims
RELEASE_DISK = "v1_release({call}, 'x', '', NULL, 0, '{{disk}}')"


@pytest.fixture
def store(postgres: PostgresServer, open_at: OpenAt, clock: Clock) -> Any:
    return open_at(postgres.url, now=clock, lease=LEASE, take_up=TAKE_UP)


def costs(server: PostgresServer, store: Any, clock: Clock, many: int) -> list[int]:
    """Return the pages for a release that moves one wait, and for one that grants it."""
    server.forget()
    store.epoch = None
    wait_for_both(store, many)
    found = [pages(server, clock, RELEASE) + pages(server, clock, REAP)]
    assert (store.snapshot("api").waiting, store.snapshot("disk").waiting) == (many - 1, 1)
    return [*found, pages(server, clock, RELEASE_DISK) + pages(server, clock, REAP)]


def test_a_release_beside_many_with_the_same_claims(
    postgres: PostgresServer, store: Any, clock: Clock
) -> None:
    few, many = costs(postgres, store, clock, FEW), costs(postgres, store, clock, MANY)
    for least, most in zip(few, many, strict=True):
        assert most <= 3 * least


def test_a_release_beside_many_before_those_with_one_claim(
    postgres: PostgresServer, store: Any, clock: Clock
) -> None:
    """One call moves a hundred at most, however many there are."""

    def cost(many: int) -> int:
        postgres.forget()
        store.epoch = None
        wait_for_both(store, many)
        singles_behind(store)
        return pages(postgres, clock, RELEASE) + pages(postgres, clock, REAP)

    assert cost(MANY) <= 1.5 * cost(150)
