"""A table of an emulator for each test, and a store on it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from celery_semaphore.stores.dynamodb import DynamoStore
from tests.support.dynamodb import EmulatorServer


@pytest.fixture
def table(emulator_server: EmulatorServer) -> str:
    return emulator_server.new_table()


@pytest.fixture
def store(emulator_server: EmulatorServer, table: str) -> Iterator[DynamoStore]:
    with closing(emulator_server.store(table, timeout=5.0)) as store:
        yield store
