from collections.abc import Iterator

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core.holdings import process
from celery_semaphore.stores.memory import MemoryStore

from .calling import SOON


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def api(store: MemoryStore) -> Semaphore:
    return Semaphore("api", 1, store=store, timeout=SOON)


@pytest.fixture(autouse=True)
def _no_keepers_left() -> Iterator[None]:
    yield
    for holdings in process._holdings.values():
        holdings._keeper.stop()
    process.begin()
