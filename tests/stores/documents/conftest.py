"""Two clients of one file, of which the first can be held up between its reads and its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from celery_semaphore.stores.sql.store import SqlStore
from tests.support.sqlite import new_file, sqlite_store

from .between import Between, Held


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_file(tmp_path)


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[[], SqlStore]]:
    stores: list[SqlStore] = []

    def open_store() -> SqlStore:
        stores.append(sqlite_store(path))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def other(open_store: Callable[[], SqlStore]) -> SqlStore:
    return open_store()


@pytest.fixture
def held(open_store: Callable[[], SqlStore]) -> Held:
    """A store and what stands between it and its documents."""
    store = open_store()
    between = Between(store._documents)
    store._documents = between
    return Held(store, between)
