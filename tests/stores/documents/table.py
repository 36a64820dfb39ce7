"""Documents of a server: what is read, and when a commit fails; the same on each."""

from __future__ import annotations

import pytest

from celery_semaphore.stores.documents.documents import Document, Documents, Key

A, B = Key("r", "a"), Key("r", "b")


def body(text: bytes, **times: int) -> Document:
    return Document(text, **times)


def put(documents: Documents, key: Key, document: Document | None) -> None:
    assert documents.begin([key]).commit({key: document}, {})


class Table:
    """What a table of documents must do; ``documents`` is an empty one."""

    def test_all_or_nothing_is_written(self, documents: Documents) -> None:
        put(documents, A, body(b"1"))
        mine = documents.begin([A, B])
        put(documents, B, body(b"other"))
        assert not mine.commit({A: body(b"2"), B: body(b"2")}, {})
        now = documents.begin([A, B])
        assert [now.get(key) for key in (A, B)] == [b"1", b"other"]

    def test_one_is_deleted_on_condition_that_another_is_as_it_was(
        self, documents: Documents
    ) -> None:
        for key in (A, B):
            put(documents, key, body(b"1"))
        mine = documents.begin([A, B])
        put(documents, B, body(b"other"))
        assert not mine.commit({A: None, B: body(b"2")}, {})
        again = documents.begin([A, B])
        assert again.get(A) == b"1"
        assert again.commit({A: None, B: body(b"2")}, {})
        now = documents.begin([A, B])
        assert [now.get(key) for key in (A, B)] == [None, b"2"]

    def test_marks_are_written_and_deleted_whatever_is_there(self, documents: Documents) -> None:
        hint, mark = Key("g", "s", "n"), Key("t", "a", "holder")
        put(documents, hint, body(b"old"))
        mine = documents.begin([A])
        put(documents, hint, body(b"new"))
        assert mine.commit({A: body(b"1")}, {hint: None, mark: body(b"m")})
        now = documents.begin([A, hint, mark])
        assert [now.get(key) for key in (A, hint, mark)] == [b"1", None, b"m"]

    def test_two_that_make_one_document(self, documents: Documents) -> None:
        first, second = documents.begin([A]), documents.begin([A])
        assert first.commit({A: body(b"first")}, {})
        assert not second.commit({A: body(b"second")}, {})
        assert documents.begin([A]).get(A) == b"first"

    def test_one_that_was_made_anew_is_another_one(self, documents: Documents) -> None:
        put(documents, A, body(b"1"))
        mine = documents.begin([A])
        put(documents, A, None)
        put(documents, A, body(b"2"))
        assert not mine.commit({A: body(b"3")}, {})

    def test_one_that_was_changed_is_not_deleted(self, documents: Documents) -> None:
        put(documents, A, body(b"1"))
        mine = documents.begin([A])
        put(documents, A, body(b"2"))
        assert not mine.commit({A: None}, {})

    def test_what_was_read_once_stays_as_it_was(self, documents: Documents) -> None:
        mine = documents.begin([])
        assert mine.get(A) is None
        put(documents, A, body(b"1"))
        assert mine.get(A) is None
        assert not mine.commit({A: body(b"2")}, {})

    def test_a_partition(self, documents: Documents) -> None:
        now = documents.begin([]).now
        keys = [Key("g", "s", item) for item in ("b", "a/ü", "over")]
        put(documents, keys[0], body(b"0"))
        put(documents, keys[1], body(b"1", expires=now + 10**9))
        put(documents, keys[2], body(b"2", expires=now - 1))
        put(documents, Key("g", "s2", "c"), body(b"other"))
        assert documents.begin([]).all_of("g", "s") == {"a/%C3%BC": b"1", "b": b"0"}

    @pytest.mark.parametrize("name", ["x" * 5000, "ü\n\0%'\"", "\ud800", "X", "x"])
    def test_any_name(self, documents: Documents, name: str) -> None:
        key, other = Key("w", name, name), Key("w", name + "y", name + "y")
        put(documents, key, body(b"1"))
        put(documents, other, body(b"2"))
        mine = documents.begin([key, other])
        assert (mine.get(key), mine.get(other)) == (b"1", b"2")
        assert [*mine.all_of("w", name).values()] == [b"1"]

    def test_keys_of_a_semaphore(self, documents: Documents) -> None:
        names = ["api", "api/1", "api/%C3%BC", "api2", "ap", "api.x/1", "apI/1"]
        for name in names:
            put(documents, Key("r", name), body(b""))
        assert documents.begin([]).keys_of("api") == ["api", "api/%C3%BC", "api/1"]
        assert documents.begin([]).keys_of("api/1") == ["api/1"]

    def test_due_ones(self, documents: Documents) -> None:
        now = documents.begin([]).now
        for name, due in (
            ("late", now - 10**7),
            ("first", 0),
            ("ahead", now + 10**9),
            ("idle", None),
        ):
            put(documents, Key("r", name), Document(b"", due))
        assert documents.sweep(now, 10) == ["ahead", "first", "late"]
        assert documents.sweep(now, 2) == ["ahead", "first"]
        assert documents.sweep(now, 0) == []
        assert documents.begin([]).in_use() == ["ahead", "first", "late"]

    def test_many_are_read_at_once(self, documents: Documents) -> None:
        keys = [Key("r", str(n)) for n in range(500)]
        for key in keys[::100]:
            put(documents, key, body(b"1"))
        mine = documents.begin(keys)
        assert [key for key in keys if mine.get(key)] == keys[::100]
