from collections.abc import Iterator

import pytest

from celery_semaphore import Semaphore, with_blocks
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON
from tests.support.held_permits import forgotten_after


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def api(store: MemoryStore) -> Semaphore:
    return Semaphore("api", 1, store=store, timeout=SOON)


@pytest.fixture(autouse=True)
def _no_block_is_entered() -> None:
    """What another test has entered and never left is of its own store, but of the same context."""
    with_blocks._entered.set(())


@pytest.fixture(autouse=True)
def _forgotten_after() -> Iterator[None]:
    with forgotten_after():
        yield
