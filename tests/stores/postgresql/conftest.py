"""Stores on PostgreSQL servers."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any
from uuid import uuid4

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql import PostgresStore
from celery_semaphore.stores.postgresql.schema import SchemaName
from celery_semaphore.stores.postgresql.url import parameters_from_url
from celery_semaphore.testing.clock import Clock
from tests.conftest import need
from tests.stores.conftest import claim
from tests.support.calling import Inside
from tests.support.postgres import EmbeddedPostgresServer, PostgresServer
from tests.support.variants import also

OpenAt = Callable[..., PostgresStore]
StartServer = Callable[..., PostgresServer]
KINDS = {"embedded_postgres": EmbeddedPostgresServer, "postgres": PostgresServer}
BOTH = ["embedded_postgres", *also("postgres")]


@pytest.fixture(params=BOTH)
def server(request: pytest.FixtureRequest) -> PostgresServer:
    found: PostgresServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=BOTH)
def start_server(request: pytest.FixtureRequest) -> Iterator[StartServer]:
    """Starts a server that may be stopped, and installs the schema."""
    kind = KINDS[request.param]
    need(kind)

    def start(**options: Any) -> PostgresServer:
        server = stack.enter_context(kind(**options))
        server.install()
        return server

    with ExitStack() as stack:
        yield start


@pytest.fixture
def open_at() -> Iterator[OpenAt]:
    def open_at(
        url: str, *, timeout: float = 5.0, place: SchemaName | None = None, **options: Any
    ) -> PostgresStore:
        given = StoreOptions(timeout=timeout, **options)
        store = PostgresStore(parameters_from_url(url, given), given, place=place)
        return stack.enter_context(closing(store))

    with ExitStack() as stack:
        yield open_at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(server: PostgresServer, open_at: OpenAt) -> PostgresStore:
    return open_at(server.url)


@pytest.fixture
def database(server: PostgresServer) -> str:
    """The name of a database that was never used."""
    name = uuid4().hex
    server.add_database(name)
    return name


def crowd(store: PostgresStore, threads: int, times: int) -> Inside:
    """Let threads acquire one of two permits many times, and count those that have one."""
    inside = Inside()

    def run(thread: int) -> None:
        for n in range(times):
            holder = f"{thread}-{n}'\\"
            if isinstance(store.acquire(claim(2), holder), Permit):
                with inside():
                    pass
                store.release(holder, claim(2))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, range(threads)))
    return inside
