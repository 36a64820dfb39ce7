"""Documents in a table: what is read, and when a commit fails."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_semaphore.stores.documents.documents import Document, Key
from celery_semaphore.stores.sql.documents import SqlDocuments
from tests.support.sqlite import new_file, sqlite_store

A, B = Key("r", "a"), Key("r", "b")


@pytest.fixture
def documents(tmp_path: Path) -> Iterator[SqlDocuments]:
    store = sqlite_store(new_file(tmp_path))
    yield store._sql
    store.close()


def body(text: bytes, **times: int) -> Document:
    return Document(text, **times)


def put(documents: SqlDocuments, key: Key, document: Document | None) -> None:
    assert documents.begin([key]).commit({key: document}, {})


def test_all_or_nothing_is_written(documents: SqlDocuments) -> None:
    put(documents, A, body(b"1"))
    mine = documents.begin([A, B])
    put(documents, B, body(b"other"))
    mark = Key("t", "a", "holder")
    assert not mine.commit({A: body(b"2"), B: body(b"2")}, {mark: body(b"m")})
    now = documents.begin([A, B, mark])
    assert [now.get(key) for key in (A, B, mark)] == [b"1", b"other", None]


def test_two_that_make_one_document(documents: SqlDocuments) -> None:
    first, second = documents.begin([A]), documents.begin([A])
    assert first.commit({A: body(b"first")}, {})
    assert not second.commit({A: body(b"second")}, {})
    assert documents.begin([A]).get(A) == b"first"


def test_one_that_was_made_anew_is_another_one(documents: SqlDocuments) -> None:
    put(documents, A, body(b"1"))
    mine = documents.begin([A])
    put(documents, A, None)
    put(documents, A, body(b"2"))
    assert not mine.commit({A: body(b"3")}, {})


def test_one_that_was_changed_is_not_deleted(documents: SqlDocuments) -> None:
    put(documents, A, body(b"1"))
    mine = documents.begin([A])
    put(documents, A, body(b"2"))
    assert not mine.commit({A: None}, {})


def test_what_was_read_once_stays_as_it_was(documents: SqlDocuments) -> None:
    mine = documents.begin([])
    assert mine.get(A) is None
    put(documents, A, body(b"1"))
    assert mine.get(A) is None
    assert not mine.commit({A: body(b"2")}, {})


def test_a_partition(documents: SqlDocuments) -> None:
    now = documents.now()
    keys = [Key("g", "s", item) for item in ("b", "a/ü", "over")]
    put(documents, keys[0], body(b"0"))
    put(documents, keys[1], body(b"1", expires=now + 10**9))
    put(documents, keys[2], body(b"2", expires=now - 1))
    put(documents, Key("g", "s2", "c"), body(b"other"))
    assert documents.begin([]).all_of("g", "s") == {"a/%C3%BC": b"1", "b": b"0"}


@pytest.mark.parametrize("name", ["x" * 5000, "ü\n\0%'\"", "\ud800", "X", "x"])
def test_any_name(documents: SqlDocuments, name: str) -> None:
    key, other = Key("w", name, name), Key("w", name + "y", name + "y")
    put(documents, key, body(b"1"))
    put(documents, other, body(b"2"))
    mine = documents.begin([key, other])
    assert (mine.get(key), mine.get(other)) == (b"1", b"2")
    assert [*mine.all_of("w", name).values()] == [b"1"]


def test_keys_of_a_semaphore(documents: SqlDocuments) -> None:
    names = ["api", "api/1", "api/%C3%BC", "api2", "ap", "api.x/1", "apI/1"]
    for name in names:
        put(documents, Key("r", name), body(b""))
    assert documents.begin([]).keys_of("api") == ["api", "api/%C3%BC", "api/1"]
    assert documents.begin([]).keys_of("api/1") == ["api/1"]


def test_due_ones(documents: SqlDocuments) -> None:
    now = documents.now()
    for name, due in (("late", now - 1), ("first", 0), ("ahead", now + 10**9), ("idle", None)):
        put(documents, Key("r", name), Document(b"", due))
    assert documents.sweep(now, 10) == ["ahead", "first", "late"]
    assert documents.sweep(now, 2) == ["ahead", "first"]
    assert documents.begin([]).in_use() == ["ahead", "first", "late"]


def test_many_are_read_at_once(documents: SqlDocuments) -> None:
    keys = [Key("r", str(n)) for n in range(500)]
    for key in keys[::100]:
        put(documents, key, body(b"1"))
    mine = documents.begin(keys)
    assert [key for key in keys if mine.get(key)] == keys[::100]
