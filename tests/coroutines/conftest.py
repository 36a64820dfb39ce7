from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_semaphore import AsyncSemaphore
from celery_semaphore.core.store import Store
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import SOON
from tests.support.held_permits import forgotten_after
from tests.support.variants import also

from .loops import LOOPS, Run, run_in

OpenStore = Callable[..., Store]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def api(store: MemoryStore) -> AsyncSemaphore:
    return AsyncSemaphore("api", 1, store=store, timeout=SOON)


@pytest.fixture(autouse=True)
def _forgotten_after() -> Iterator[None]:
    with forgotten_after():
        yield


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Run[Any]:
    """Run a coroutine to its end in a loop of this kind."""
    return run_in(request.param)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Ask PostgreSQL from one kind of loop, and end coroutines there in one way.

    All calls are made in threads of ours, so what happens to a coroutine and the store never meet.
    """
    asked = getattr(item, "callspec", None)
    if not asked or asked.params.get("url") != "postgres":
        return
    end = getattr(asked.params.get("end"), "__name__", "by_cancel")
    if asked.params.get("run") == "uvloop" or end != "by_cancel":
        item.add_marker("variants")


SERVERS = ["valkey", *also("redis"), "postgres"]


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> str:
    server: Any = request.getfixturevalue(request.param)
    found: str = server.url
    return found


@pytest.fixture
def open_store(url: str) -> Iterator[OpenStore]:
    """Open a client of the server; each has connections of its own."""
    stores: list[Store] = []

    def open_store(**options: Any) -> Store:
        stores.append(store_from_url(url, StoreOptions(timeout=5.0, **options)))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()
