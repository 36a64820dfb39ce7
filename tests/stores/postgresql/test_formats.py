"""The format of what stands in the tables, beside the versions of the functions that are installed."""

from uuid import uuid4

import pytest

from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.refusal import Reason
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.postgresql import PostgresStore
from celery_semaphore.stores.postgresql.schema import SchemaName
from tests.stores.conftest import claim, permit_of, refusal_of
from tests.support.postgres import PostgresServer

FORMATS = "SELECT format FROM celery_semaphore.epoch UNION ALL SELECT format FROM celery_semaphore.epoch_before"
RECORDS = """
    SELECT (SELECT array_agg(e::text) FROM celery_semaphore.epoch AS e),
        (SELECT array_agg(b::text) FROM celery_semaphore.epoch_before AS b)
"""


def test_the_newest_functions_are_of_the_librarys_format(server: PostgresServer) -> None:
    function = SchemaName().function("format")
    assert server.run(f"SELECT {function}()") == [(FORMAT,)]


def test_new_records_have_it(server: PostgresServer, store: PostgresStore) -> None:
    permit_of(store.acquire(claim(), "a"))
    assert server.run(FORMATS) == [(FORMAT,), (FORMAT,)]


def test_a_crash_keeps_the_one_before(server: PostgresServer, store: PostgresStore) -> None:
    """Workers that read no other may still be there: an operator's command goes over to the newer one."""
    permit_of(store.acquire(claim(), "a"))
    server.set_format(FORMAT - 1)
    server.run("TRUNCATE celery_semaphore.epoch")
    assert refusal_of(store.acquire(claim(), "b")).reason is Reason.RECOVERING
    assert server.run(FORMATS) == [(FORMAT - 1,), (FORMAT - 1,)]


@pytest.mark.parametrize("crashed", [False, True])
def test_newer_records_are_not_written(
    server: PostgresServer, store: PostgresStore, *, crashed: bool
) -> None:
    permit = permit_of(store.acquire(claim(), "a"))
    server.set_format(FORMAT + 1)
    if crashed:
        server.run("TRUNCATE celery_semaphore.epoch")
    before = server.run(RECORDS)
    for call in (
        lambda: store.acquire(claim(), str(uuid4())),
        lambda: store.renew([permit]),
        lambda: store.release("a", claim()),
        store.reap,
    ):
        with pytest.raises(StoreUnavailable):
            call()
    assert server.run(RECORDS) == before
