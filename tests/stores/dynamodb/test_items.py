"""How a document is kept as an item."""

from __future__ import annotations

import pytest

from celery_semaphore.core.key import resource_name
from celery_semaphore.stores.documents.documents import Document, Key
from celery_semaphore.stores.dynamodb.items import Row, item_of, key_of, resource_of

ROW = Row(7, b"body", 5_000_000, 3, None)


def test_all_keys_of_a_semaphore_are_one_partition() -> None:
    names = [resource_name("api", key) for key in (None, "1", "ü/x")] + ["api//"]
    found = [key_of(Key("r", name)) for name in names]
    assert {each["pk"]["S"] for each in found} == {"r#api"}
    assert [resource_of(each) for each in found] == names
    assert key_of(Key("r", "api2"))["pk"]["S"] == "r#api2"


@pytest.mark.parametrize("name", ["", "x" * 3000, "ü" * 3000, "\0\n"])
def test_no_part_of_a_key_is_empty_or_too_long(name: str) -> None:
    for key in (Key("w", name, name), Key("r", name[:200])):
        found = key_of(key)
        assert 1 <= len(found["pk"]["S"].encode()) <= 2048
        assert 1 <= len(found["sk"]["S"].encode()) <= 1024


def test_an_item_says_when_it_may_be_deleted_in_whole_seconds() -> None:
    """Without it (microseconds) DynamoDB deletes it never, or (rounded down) before its time."""
    found = item_of(Key("t", "api", "h"), Document(b"body", expires=1_500_001), ROW)
    assert (found["expires"], found["ttl"]) == ({"N": "1500001"}, {"N": "2"})
    assert "ttl" not in item_of(Key("p", "x"), Document(b"body"), ROW)


def test_the_index_lists_resources_in_use_and_parked_messages_alone() -> None:
    used = item_of(Key("r", "api"), Document(b"body", due=0), ROW)
    assert (used["listed"], used["due"]) == ({"S": "used"}, {"N": "0"})
    parked = item_of(Key("p", "x"), Document(b"body"), ROW)
    assert (parked["listed"], parked["due"]) == ({"S": "parked"}, {"N": "5000000"})
    for key in (Key("r", "api"), Key("s", "x"), Key("store")):
        assert "listed" not in item_of(key, Document(b"body", expires=9), ROW)


def test_what_is_read_is_what_was_written() -> None:
    for row in (ROW, Row(1, b"", 0, None, None), Row(1, b"x", 2, 0, 99)):
        item = item_of(Key("r", "api"), Document(row.body, expires=row.expires), row)
        assert Row.of(item) == row
