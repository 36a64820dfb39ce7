"""Documents as items: what a server without snapshots and without locks needs beside what each needs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from celery_semaphore.stores.documents.documents import Busy, Changes, Document, Key
from celery_semaphore.stores.dynamodb import DynamoStore
from celery_semaphore.stores.dynamodb.documents import DynamoDocuments
from celery_semaphore.stores.dynamodb.transaction import DynamoTransaction
from tests.stores.documents.table import Table
from tests.support.dynamodb import EmulatorServer

pytestmark = pytest.mark.variants
A, B, STORE = Key("r", "a"), Key("r", "b"), Key("store")
RACES, RACERS = 20, 8


@pytest.fixture
def store(emulator_server: EmulatorServer) -> Iterator[DynamoStore]:
    table = emulator_server.new_table()
    with closing(emulator_server.store(table, timeout=10.0)) as store:
        yield store


@pytest.fixture
def documents(store: DynamoStore) -> DynamoDocuments:
    return store._dynamo


class TestDynamo(Table):
    """What each server must do."""


def put(documents: DynamoDocuments, key: Key, body: bytes, **times: int) -> None:
    assert documents.begin([STORE, key]).commit({key: Document(body, **times)}, {})


@pytest.mark.parametrize("keys", [[A], [A, B]], ids=["one", "two"])
def test_of_many_that_write_at_once_one_wins(documents: DynamoDocuments, keys: list[Key]) -> None:
    """Of the emulator, too: without it nothing that is tested on it says anything."""
    for key in keys:
        put(documents, key, b"0")
    for race in range(RACES):
        mine = [documents.begin(keys) for _ in range(RACERS)]
        start, kept = threading.Barrier(RACERS), list[int]()

        def write(n: int, mine: DynamoTransaction, start: Any = start, kept: Any = kept) -> None:
            start.wait()
            if mine.commit({key: Document(b"%d" % n) for key in keys}, {}):
                kept.append(n)

        threads = [threading.Thread(target=write, args=each) for each in enumerate(mine)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = documents.begin(keys)
        # All may lose where the server has noticed that they were in each other's way.
        assert len(kept) <= 1, race
        assert {found.get(key) for key in keys} <= {b"%d" % n for n in kept} or not kept


def test_a_document_that_was_read_at_two_moments_is_not_used_beside_an_older_decision(
    documents: DynamoDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it a key that is made between two reads of one request obeys the decision of before."""
    put(documents, STORE, b"before")
    old = documents.link.read([_key(STORE)])
    put(documents, STORE, b"decided")
    put(documents, A, b"1")
    read = documents.link.read

    def torn(keys: Any) -> Any:
        return [*old, *(item for item in read(keys) if item["pk"]["S"] != "store#")]

    monkeypatch.setattr(documents.link, "read", torn)
    assert documents.begin([STORE, A]).get(STORE) == b"decided"


def test_one_that_is_read_later_ends_the_attempt_instead(documents: DynamoDocuments) -> None:
    put(documents, STORE, b"before")
    mine = documents.begin([STORE])
    assert mine.get(STORE) == b"before"
    put(documents, STORE, b"decided")
    put(documents, A, b"1")
    with pytest.raises(Busy):
        mine.get(A)


@pytest.mark.parametrize("when", ["before it is made", "after"])
def test_a_key_that_is_new_needs_the_decisions_as_they_are(
    documents: DynamoDocuments, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Without it an operator's decision finds no document of the key, and the key obeys the one of before."""
    put(documents, STORE, b"before")
    mine = documents.begin([STORE, A])
    if when == "before it is made":
        put(documents, STORE, b"decided")
        assert not mine.commit({A: Document(b"1")}, {})
    else:
        sent = mine._sent

        def decided_meanwhile(writes: Any) -> bool:
            kept = sent(writes)
            monkeypatch.setattr(mine, "_sent", sent)
            put(documents, STORE, b"decided")
            assert documents.begin([STORE]).keys_of("a") == ["a"]
            return kept

        monkeypatch.setattr(mine, "_sent", decided_meanwhile)
        assert not mine.commit({A: Document(b"1")}, {})
    again = documents.begin([STORE, A])
    assert again.commit({A: Document(b"1")}, {})


def test_marks_come_before_the_changes_and_messages_are_deleted_after_them(
    documents: DynamoDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(documents, A, b"1")
    hint, message, mark = Key("g", "s", "n"), Key("p", "x"), Key("t", "b", "h")
    assert documents.begin([]).commit({}, {hint: Document(b"h"), message: Document(b"m")})
    mine, order = documents.begin([A]), list[tuple[str, int]]()
    call = documents.link.call_as_is

    def note(operation: str, **given: Any) -> Any:
        sizes = given.get("TransactItems") or next(iter(given.get("RequestItems", {}).values()))
        order.append((operation, len(sizes)))
        return call(operation, **given)

    monkeypatch.setattr(documents.link, "call_as_is", note)
    changes: Changes = {A: Document(b"2")}
    assert mine.commit(changes, {hint: None, message: None, mark: Document(b"t")})
    writes = ["batch_write_item", "transact_write_items", "batch_write_item"]
    assert order == [*zip(writes, (1, 2, 1), strict=True)]


def test_more_than_a_transaction_has_is_written_in_parts(
    documents: DynamoDocuments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First what is gone of a line, on condition that the line is as it was read."""
    put(documents, A, b"1")
    hints = [Key("w", "t", str(n)) for n in range(250)]
    for start in range(0, 250, 50):
        some = hints[start : start + 50]
        assert documents.begin(some).commit({key: Document(b"a") for key in some}, {})
    changes: Any = {A: Document(b"2"), **dict.fromkeys(hints)}
    stale, mine = documents.begin([A, *hints]), documents.begin([A, *hints])
    assert mine.commit(changes, {})
    assert not stale.commit(changes, {})
    now = documents.begin([A, *hints])
    assert Counter(now.get(key) for key in (A, *hints)) == {b"2": 1, None: 250}


def test_nothing_of_a_line_is_deleted_if_the_line_was_changed(documents: DynamoDocuments) -> None:
    put(documents, A, b"1")
    hints = [Key("w", "t", str(n)) for n in range(120)]
    for start in range(0, 120, 60):
        some = hints[start : start + 60]
        assert documents.begin(some).commit({key: Document(b"a") for key in some}, {})
    mine = documents.begin([A, *hints])
    put(documents, A, b"other")
    assert not mine.commit({A: Document(b"2"), **dict.fromkeys(hints)}, {})
    now = documents.begin(hints)
    assert {now.get(key) for key in hints} == {b"a"}


def test_more_documents_than_a_transaction_has(documents: DynamoDocuments) -> None:
    keys = [Key("q", str(n)) for n in range(230)]
    mine = documents.begin(keys)
    assert mine.commit({key: Document(b"1") for key in keys}, {})
    now = documents.begin(keys)
    assert {now.get(key) for key in keys} == {b"1"}


def test_the_time_is_not_before_what_was_written(documents: DynamoDocuments) -> None:
    put(documents, A, b"1")
    item = documents.link.read([_key(A)])[0]
    ahead = documents.link.clock.now() + 50_000
    documents.link.call("put_item", Item=item | {"at": {"N": str(ahead)}})
    assert documents.begin([A]).now >= ahead


def _key(key: Key) -> Any:
    from celery_semaphore.stores.dynamodb.items import key_of  # noqa: PLC0415

    return key_of(key)
