"""Two clients of one store, of which the first can be held up between its reads and its commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.support.dynamodb import EmulatorServer
from tests.support.sqlite import new_file, sqlite_store
from tests.support.variants import also

from .between import Between, Held, KeptInDocuments

OpenStore = Callable[[], KeptInDocuments]


@pytest.fixture(params=["sqlite", *also("dynamodb")])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenStore]:
    with ExitStack() as stack:

        def on_sqlite() -> KeptInDocuments:
            return stack.enter_context(closing(sqlite_store(path)))

        def on_dynamodb() -> KeptInDocuments:
            return stack.enter_context(closing(server.store(table)))

        if request.param == "sqlite":
            path = new_file(tmp_path)
            yield on_sqlite
        else:
            server: EmulatorServer = request.getfixturevalue("emulator_server")
            table = server.new_table()
            yield on_dynamodb


@pytest.fixture
def other(open_store: OpenStore) -> KeptInDocuments:
    return open_store()


@pytest.fixture
def held(open_store: OpenStore) -> Held:
    """A store and what stands between it and its documents."""
    store = open_store()
    between = Between(store._documents)
    store._documents = between
    return Held(store, between)
