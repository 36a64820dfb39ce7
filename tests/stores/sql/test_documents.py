"""Documents in a table of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_semaphore.stores.documents.documents import Document, Key
from celery_semaphore.stores.sql.documents import SqlDocuments
from tests.stores.documents.table import Table
from tests.support.sqlite import new_file, sqlite_store

A, B = Key("r", "a"), Key("r", "b")


class TestSqlite(Table):
    @pytest.fixture
    def documents(self, tmp_path: Path) -> Iterator[SqlDocuments]:
        store = sqlite_store(new_file(tmp_path))
        yield store._sql
        store.close()

    def test_a_mark_is_written_with_the_changes_or_not_at_all(
        self, documents: SqlDocuments
    ) -> None:
        mine, mark = documents.begin([A, B]), Key("t", "a", "holder")
        assert documents.begin([B]).commit({B: Document(b"other")}, {})
        assert not mine.commit({A: Document(b"2"), B: Document(b"2")}, {mark: Document(b"m")})
        assert documents.begin([mark]).get(mark) is None
