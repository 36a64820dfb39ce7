"""The stores of the model, on servers that are started once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql import PostgresStore
from celery_semaphore.stores.postgresql.url import parameters_from_url
from celery_semaphore.stores.redis import from_url as redis_from_url
from celery_semaphore.stores.sql.sqlite import Sqlite
from celery_semaphore.stores.sql.store import SqlStore
from celery_semaphore.testing.clock import Clock
from tests.conformance.suite import LEASE, TAKE_UP
from tests.support.postgres import PostgresServer
from tests.support.servers import ValkeyServer
from tests.support.sqlite import new_file

from .trio import Server, Trio

# For mutants: that a program fails is enough, and to find the shortest one takes minutes.
settings.register_profile("unshrunk", phases=[Phase.generate])


@pytest.fixture
def trio(valkey: ValkeyServer, postgres: PostgresServer, tmp_path: Path) -> Iterator[Trio]:
    clock = Clock()
    options = StoreOptions(now=clock, lease=LEASE, take_up=TAKE_UP, timeout=5.0)
    memory = MemoryStore(options)
    redis = redis_from_url(valkey.url, options)
    postgresql = PostgresStore(parameters_from_url(postgres.url, options), options)
    documents = SqlStore(Sqlite({"database": str(new_file(tmp_path))}), options)
    documents.install()
    with valkey.client() as client:
        yield Trio(
            {
                "memory": Server(memory, memory.forget),
                "redis": Server(redis, client.flushall),
                "postgresql": Server(postgresql, postgres.forget),
                "sqlite": Server(documents, lambda: documents._sql.rows("DELETE FROM {table}")),
            },
            clock,
        )
    documents.close()
    redis.close()
    postgresql.close()
