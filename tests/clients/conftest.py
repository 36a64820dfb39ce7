from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis import RedisStore, from_url
from tests.support import node as nodejs
from tests.support.counter import CounterServer
from tests.support.held_permits import forgotten_after
from tests.support.servers import in_ci

from .caller import Caller

StartCaller = Callable[[], Caller]
OpenStore = Callable[..., RedisStore]


@pytest.fixture(scope="session")
def node() -> None:
    """Node.js, and the packages of the client."""
    reason = nodejs.why_missing() or nodejs.why_not_installed()
    if reason and in_ci():
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture
def start_caller(node: None, counter_server: CounterServer) -> Iterator[StartCaller]:
    """Start a process in JavaScript that does what it is told."""
    callers: list[Caller] = []

    def start() -> Caller:
        callers.append(Caller(counter_server.env))
        return callers[-1]

    yield start
    for caller in callers:
        caller.discard()


@pytest.fixture
def caller(start_caller: StartCaller) -> Caller:
    return start_caller()


@pytest.fixture
def open_store() -> Iterator[OpenStore]:
    """Open a store of Python at this URL, which is closed after the test."""
    stores: list[RedisStore] = []

    def open_store(url: str, **options: Any) -> RedisStore:
        stores.append(from_url(url, StoreOptions(**options)))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture(autouse=True)
def _forgotten_after() -> Iterator[None]:
    with forgotten_after():
        yield
