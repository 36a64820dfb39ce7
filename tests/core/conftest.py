from collections.abc import Iterator

import pytest

from celery_semaphore.stores.memory import MemoryStore
from tests.support.held_permits import forgotten_after


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture(autouse=True)
def _forgotten_after() -> Iterator[None]:
    with forgotten_after():
        yield
