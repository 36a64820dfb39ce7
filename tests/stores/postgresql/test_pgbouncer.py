"""Behind a real PgBouncer in transaction mode."""

from collections.abc import Iterator

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.postgresql import PostgresStore
from tests.conftest import need
from tests.stores.conftest import PARK, claim, refusal_of
from tests.support.pgbouncer import PgBouncer
from tests.support.postgres import PostgresServer

from .conftest import OpenAt, crowd


@pytest.fixture
def pooler(server: PostgresServer) -> Iterator[PgBouncer]:
    need(PgBouncer)
    with PgBouncer(server) as pooler:
        yield pooler


@pytest.fixture
def pooled(pooler: PgBouncer, open_at: OpenAt) -> PostgresStore:
    return open_at(pooler.url)


def test_a_pair(pooled: PostgresStore) -> None:
    assert pooled.check() == []
    assert isinstance(pooled.acquire(claim(), "a"), Permit)
    assert not pooled.release("a", claim()).outgoing


def test_what_is_counted(pooled: PostgresStore) -> None:
    pooled.acquire(claim(2), "a")
    (totals, other) = pooled.totals(["api", "disk"])
    assert (totals.held, totals.limit, other.held, other.limit) == (1, 2, 0, None)


def test_a_crowd_through_few_sessions(pooled: PostgresStore) -> None:
    """Nothing of one transaction is left for the next, which may be another client's."""
    inside = crowd(pooled, threads=8, times=30)
    assert inside.entries > 30
    assert inside.most <= 2
    assert list(pooled.resources()) == []


def test_what_is_parked_is_durable_for_others_only_in_its_own_transaction(
    pooler: PgBouncer, pooled: PostgresStore
) -> None:
    pooled.acquire(claim(), "a")
    ticket = refusal_of(pooled.acquire(claim(), "b", PARK)).ticket
    assert ticket
    pooled.attach(ticket, claim(), b"b")
    with pooler.server.client(port=pooler.port) as client:
        assert client.execute("SHOW synchronous_commit").fetchone() == ("on",)
        assert client.execute("SHOW lock_timeout").fetchone() == ("0",)
