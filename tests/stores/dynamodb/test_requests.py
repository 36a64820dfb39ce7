"""How few requests a permit costs, and what they must not lose for that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.documents.documents import Busy, Document, Key
from celery_semaphore.stores.dynamodb import DynamoStore
from celery_semaphore.stores.dynamodb.errors import NoAnswer
from celery_semaphore.stores.dynamodb.left_messages import MOST as MOST_LEFT, LeftMessages
from celery_semaphore.stores.dynamodb.tombstones import MOST, placed
from celery_semaphore.stores.dynamodb.transaction import DynamoTransaction
from celery_semaphore.stores.dynamodb.versions import MOST as MOST_VERSIONS, WrittenVersions
from tests.stores.conftest import claim, park, permit_of, refusal_of
from tests.support.dynamodb import EmulatorServer

PAIR = ["batch_get_item", "put_item"] * 2
A, B = Key("r", "api"), Key("r", "b")


@pytest.fixture
def other(emulator_server: EmulatorServer, table: str) -> Iterator[DynamoStore]:
    with closing(emulator_server.store(table, timeout=5.0)) as other:
        yield other


@pytest.fixture
def requests(store: DynamoStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found, call = list[str](), store._link.call_as_is

    def note(operation: str, **given: Any) -> Any:
        found.append(operation)
        return call(operation, **given)

    monkeypatch.setattr(store._link, "call_as_is", note)
    return found


READS = ("get_item", "batch_get_item", "query")


@pytest.fixture
def reads(store: DynamoStore, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """Return how each table is read: the operation, and whether consistently. An index cannot be."""
    found, call = list[tuple[str, Any]](), store._link.call_as_is

    def note(operation: str, **given: Any) -> Any:
        for asked in [given, *given.get("RequestItems", {}).values()]:
            if operation in READS and not {"IndexName", "RequestItems"} & {*asked}:
                found.append((operation, asked.get("ConsistentRead")))
        return call(operation, **given)

    monkeypatch.setattr(store._link, "call_as_is", note)
    return found


@pytest.mark.variants
def test_all_reads_are_consistent(store: DynamoStore, reads: list[tuple[str, Any]]) -> None:
    """Others may be older than what this process was told; on an emulator none is."""
    pair(store, "first")
    permit_of(store.acquire(claim(), "a"))
    park(store, "b")
    store.waits_of("task")
    store.pause("api")
    store.processes()
    assert {*reads} == {(operation, True) for operation in READS}


def pair(store: DynamoStore, holder: str) -> None:
    permit_of(store.acquire(claim(), holder))
    store.release(holder, claim())


@pytest.mark.variants
def test_a_pair_at_a_key_in_use_is_two_reads_and_two_writes(
    store: DynamoStore, requests: list[str]
) -> None:
    pair(store, "first")
    requests.clear()
    pair(store, "a")
    assert requests == PAIR


@pytest.mark.variants
def test_after_another_process_it_reads_once_more(
    store: DynamoStore, other: DynamoStore, requests: list[str]
) -> None:
    pair(store, "first")
    pair(other, "another")
    requests.clear()
    pair(store, "a")
    assert requests == ["batch_get_item", *PAIR]
    requests.clear()
    permit_of(store.acquire(claim(), "b"))
    assert requests == PAIR[:2]


@pytest.mark.variants
def test_a_tombstone_that_was_read_before_its_resource_is_read_again(
    store: DynamoStore, other: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without it an acquire that is on its way gets a permit after its release, and nothing releases that."""
    pair(store, "first")
    read = store._link.read

    def torn(keys: Any) -> Any:
        monkeypatch.setattr(store._link, "read", read)
        before = read([key for key in keys if key["pk"]["S"] != "r#api"])
        other.release("late", claim())
        for n in range(MOST):  # until its tombstone is a document of its own
            other.release(f"h{n}", claim())
        return before + read([key for key in keys if key["pk"]["S"] == "r#api"])

    monkeypatch.setattr(store._link, "read", torn)
    assert refusal_of(store.acquire(claim(), "late")).reason is Reason.RELEASED
    assert not other.snapshot("api").holders
    assert not store._dynamo.versions.of([A])  # the next attempt would read in vain, too


@pytest.mark.variants
def test_a_released_holder_gets_no_permit_wherever_its_tombstone_lies(
    store: DynamoStore, other: DynamoStore
) -> None:
    holders = [f"h{n}" for n in range(2 * MOST + 3)] + ["ü%", "x" * 700]
    for holder in holders:
        store.release(holder, claim())
    for each in (store, other):
        for holder in holders:
            assert refusal_of(each.acquire(claim(), holder)).reason is Reason.RELEASED


def marks_of(*holders: str, at: str = "api") -> dict[Key, Document | None]:
    return {Key("t", at, holder): Document(b"", expires=9) for holder in holders}


@pytest.mark.parametrize(
    ("before", "new", "placed_in", "documents"),
    [
        ({"a": 7}, ["b"], {"a": 7, "b": 9}, []),
        ({"a": 5}, ["b"], {"b": 9}, []),
        ({"a": 7}, ["ü", "x" * 700], {"a": 7}, ["ü", "x" * 700]),
        ({"a": 7, "b": 7, "c": 7}, ["b"], {"a": 7, "b": 9, "c": 7}, []),
        ({"a": 7, "b": 7, "c": 7}, ["i"], {"i": 9}, [*"abc"]),
        ({"a": 7}, [*"bcde"], {"a": 7}, [*"bcde"]),
        ({"a": 7, "b": 7}, [*"bcde"], {"a": 7}, [*"bcde"]),
        ({"a": 7}, ["a", "x" * 700], {"a": 9}, ["x" * 700]),
    ],
    ids=["beside", "expired", "no attribute", "again", "full", "too many", "hidden", "anew"],
)
def test_where_tombstones_are_placed(
    before: dict[str, int], new: list[str], placed_in: dict[str, int], documents: list[str]
) -> None:
    others = marks_of("b", "i", at="b")
    found, rest = placed("api", before, marks_of(*new) | others, 5)
    assert found == placed_in
    assert rest.keys() == {*marks_of(*documents), *others}


@pytest.mark.variants
def test_an_end_is_hidden_by_no_earlier_one(emulator_server: EmulatorServer, table: str) -> None:
    """A release that is repeated marks its holder once more, in a call that marks many dead holders, too."""
    now = [1_000_000.0]
    with closing(
        emulator_server.store(table, timeout=5.0, lease=10.0, now=lambda: now[0])
    ) as store:

        def pass_by(seconds: int) -> None:
            for _ in range(seconds):
                now[0] += 1
                store._made(store._seen)

        many = claim(limit=9)
        for holder in "abc":
            permit_of(store.acquire(many, holder))
        pass_by(7)
        permit_of(store.acquire(many, "late"))
        store.release("late", many)
        pass_by(8)
        store.release("late", many)
        pass_by(3)
        assert refusal_of(store.acquire(many, "late")).reason is Reason.RELEASED


@pytest.mark.variants
def test_a_tombstone_does_not_outlive_its_item(emulator_server: EmulatorServer, table: str) -> None:
    """It was made in a longer lease."""
    with closing(emulator_server.store(table, timeout=5.0, lease=3600.0)) as store:
        store.release("late", claim())
        store.set_lease(10.0)
        permit_of(store.acquire(claim(), "a"))
        store.release("a", claim())
        items = store._link.call("scan", ConsistentRead=True)["Items"]
        (item,) = [each for each in items if "ended" in each]
        last = max(int(until["N"]) for until in item["ended"]["M"].values())
        assert int(item["ttl"]["N"]) * 1_000_000 > last


def test_versions_are_known_of_all_or_of_none_and_of_so_many() -> None:
    known = WrittenVersions()
    known.note({A: 1, B: 2})
    assert known.of([A, B]) == {A: 1, B: 2}
    known.forget([B])
    assert (known.of([A]), known.of([A, B])) == ({A: 1}, {})
    known.note({Key("r", str(n)): n for n in range(MOST_VERSIONS)})
    assert (known.of([A]), known.of([Key("r", "7")])) == ({}, {Key("r", "7"): 7})


class TestMessages:
    """They are documents of their own, put before the resource refers to them, and deleted after it does."""

    @pytest.fixture
    def waiting(self, store: DynamoStore) -> Ticket:
        permit_of(store.acquire(claim(), "a"))
        ticket = refusal_of(store.acquire(claim(), "b", Wait(Kind.PARK))).ticket
        assert ticket
        return ticket

    @staticmethod
    def parked(store: DynamoStore) -> int:
        return store.durability(9).parked

    @staticmethod
    def sent(store: DynamoStore) -> list[bytes]:
        grants = store.take(store.release("a", claim()).outgoing)
        store.sent(grants)
        return [grant.payload for grant in grants]

    @pytest.mark.variants
    @pytest.mark.parametrize("reason", ["changed", "throttled", "no time is left"])
    def test_one_that_is_not_parked_is_deleted_later(
        self, store: DynamoStore, waiting: Ticket, monkeypatch: pytest.MonkeyPatch, reason: str
    ) -> None:
        """As its call has lost against others for its whole time."""
        store._timeout = 0.5

        def refuse(*_: object) -> bool:
            if reason != "changed":
                raise Busy(reason)
            return False

        with monkeypatch.context() as patch:
            patch.setattr(DynamoTransaction, "_sent", refuse)
            with pytest.raises(StoreUnavailable, match="not kept"):
                store.attach(waiting, claim(), b"message")
        store._timeout = 5.0
        assert 0 < self.parked(store) < 9
        store.release("b", claim())
        assert self.parked(store) == 0

    @pytest.mark.variants
    def test_one_that_may_be_parked_stays(
        self, store: DynamoStore, waiting: Ticket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server has made the changes, and its answer is lost."""
        store._timeout, sent, was_lost = 0.5, DynamoTransaction._sent, list[bool]()

        def lose(transaction: Any, writes: Any) -> bool:
            if was_lost:
                raise Busy("throttled")
            was_lost.append(sent(transaction, writes))
            raise NoAnswer("the answer is lost")

        with monkeypatch.context() as patch:
            patch.setattr(DynamoTransaction, "_sent", lose)
            with pytest.raises(StoreUnavailable, match="not kept"):
                store.attach(waiting, claim(), b"message")
        assert was_lost == [True]
        store._timeout = 5.0
        store.release("b", claim())
        assert self.sent(store) == [b"message"]
        assert self.parked(store) == 0

    @pytest.mark.variants
    def test_one_that_is_parked_by_a_later_attempt_stays(
        self, store: DynamoStore, waiting: Ticket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sent, refused = DynamoTransaction._sent, list[object]()

        def refuse_twice(transaction: Any, writes: Any) -> bool:
            if len(refused) < 2:
                refused.append(writes)
                return False
            return sent(transaction, writes)

        monkeypatch.setattr(DynamoTransaction, "_sent", refuse_twice)
        store.attach(waiting, claim(), b"message")
        assert self.sent(store) == [b"message"]
        assert self.parked(store) == 0

    @pytest.mark.variants
    def test_one_that_cannot_be_deleted_is_deleted_later(
        self, store: DynamoStore, waiting: Ticket, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With the next call that writes."""
        store.attach(waiting, claim(), b"message")
        write = store._link.write

        def throttled(requests: Any) -> None:
            if any("DeleteRequest" in each for each in requests):
                raise Busy("throttled")
            write(requests)

        with monkeypatch.context() as patch:
            patch.setattr(store._link, "write", throttled)
            assert self.sent(store) == [b"message"]
        assert self.parked(store) == 1
        store.release("b", claim())
        assert self.parked(store) == 0


def test_so_many_left_messages_are_remembered() -> None:
    left = LeftMessages()
    left.note(Key("p", "", str(n)) for n in range(MOST_LEFT + 3))
    assert [key.item for key in left.taken(2)] == ["3", "4"]
    assert len(left.taken(2 * MOST_LEFT)) == MOST_LEFT - 2
    assert not left.taken(1)
