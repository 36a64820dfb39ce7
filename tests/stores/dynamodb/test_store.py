"""Permits in DynamoDB: what only it has."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from celery_semaphore.core.durability import Safety
from celery_semaphore.core.parking import OversizedMessage
from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import HeldWait, Standing
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores.dynamodb import DynamoStore, documents
from celery_semaphore.stores.dynamodb.documents import LARGEST_PAYLOAD
from celery_semaphore.stores.dynamodb.tombstones import MOST
from tests.stores.conftest import PARK, claim, park, permit_of, refusal_of
from tests.stores.lost_answers import LostAnswers
from tests.support.dynamodb import EmulatorServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy

pytestmark = pytest.mark.variants


class TestLostAnswersOnDynamo(LostAnswers):
    @pytest.fixture
    def server(self, emulator_server: EmulatorServer) -> EmulatorServer:
        return emulator_server

    @pytest.fixture
    def cut_off(
        self, proxy: Proxy, emulator_server: EmulatorServer, table: str, store: DynamoStore
    ) -> Iterator[DynamoStore]:
        store.snapshot("api")  # it is in use
        with closing(emulator_server.store(table, port=proxy.port)) as cut_off:
            yield cut_off


class TestInstallation:
    def test_a_worker_makes_no_table_but_says_what_to_run(
        self, emulator_server: EmulatorServer
    ) -> None:
        with closing(emulator_server.store()) as store:
            assert store.about().tables == 0
            with pytest.raises(ConfigurationError, match="semaphore install"):
                store.check()
            with pytest.raises(StoreUnavailable, match="semaphore install"):
                store.acquire(claim(), "a")
            assert store.install() == [1]
            assert store.install() == []
            assert store.check(parks=True) == []
            assert store.about().tables == 1

    def test_it_deletes_what_has_expired(self, emulator_server: EmulatorServer, table: str) -> None:
        with closing(emulator_server.store(table)) as store:
            [said] = store.check()  # the tests switch it off
            assert "deletes nothing" in said
            store.install()
            assert store.check() == []
            found = store._link.call("describe_time_to_live")["TimeToLiveDescription"]
            assert found == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}

    def test_it_is_paid_by_the_request(self, store: DynamoStore) -> None:
        found = store._link.call("describe_table")["Table"]
        assert found["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"

    def test_two_tables_are_two_stores(self, emulator_server: EmulatorServer) -> None:
        for _ in range(2):
            with closing(emulator_server.store(emulator_server.new_table())) as store:
                permit_of(store.acquire(claim(), "a"))

    def test_after_a_restore_those_that_run_come_first(
        self, emulator_server: EmulatorServer, table: str, store: DynamoStore
    ) -> None:
        """Without it a permit that was admitted after the backup is forgotten, and there are two of one."""
        store.acquire(claim(of="disk"), "z")
        with closing(emulator_server.store(table)) as other:
            permit = permit_of(other.acquire(claim(), "a"))
            store._link.call("delete_item", Key={"pk": {"S": "r#api"}, "sk": {"S": "#api"}})
            store.restored()
            assert refusal_of(store.acquire(claim(), "b")).reason is Reason.RECOVERING
            assert other.renew([permit]) == {"a": Renewal.RESTORED}
            assert [each.holder for each in store.snapshot("api").holders] == ["a"]


def test_a_worker_that_starts_learns_the_time(
    store: DynamoStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = store._link.clock
    clock._bounds = None
    store.check()
    assert clock.error < 0.2
    assert abs(clock.now() / 1e6 - time.time()) < clock.error + 0.01
    monkeypatch.setattr(time, "time", lambda: 5.0)
    assert permit_of(store.acquire(claim(), "a")).acquired_at > 1e9


class TestSizes:
    def test_the_largest_message(self, store: DynamoStore) -> None:
        """It does not fit into an item if it cannot be compressed and takes a byte more than twice."""
        store.acquire(claim(), "a")
        ticket = refusal_of(store.acquire(claim(), "b", PARK)).ticket
        assert ticket
        payload = os.urandom(LARGEST_PAYLOAD)
        store.attach(ticket, claim(), payload)
        [grant] = store.take(store.release("a", claim()).outgoing)
        assert grant.payload == payload

    def test_a_larger_one_is_refused_and_waits_as_before(self, store: DynamoStore) -> None:
        store.acquire(claim(), "a")
        ticket = refusal_of(store.acquire(claim(), "b", PARK)).ticket
        assert ticket
        with pytest.raises(OversizedMessage, match="350001 bytes, and this store keeps at most"):
            store.attach(ticket, claim(), bytes(LARGEST_PAYLOAD + 1))
        found = store.durability(9)
        assert (found.parked, found.largest_payload) == (0, LARGEST_PAYLOAD)
        store.attach(ticket, claim(), b"small")

    def test_a_line_that_fills_an_item_gives_no_further_place(
        self, store: DynamoStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Without it the write of each further wait is an error, which a worker takes for an outage."""
        store.acquire(claim(), "a")
        first = refusal_of(store.acquire(claim(), "b", PARK)).ticket
        assert first
        monkeypatch.setattr(documents.DynamoDocuments, "largest_line", 100)
        refused = refusal_of(store.acquire(claim(), "c", PARK))
        assert (refused.reason, refused.ticket) == (Reason.SATURATED, None)
        again = Wait(Kind.PARK, first)
        assert refusal_of(store.acquire(claim(), "b2", again)).ticket == first
        store.attach(first, claim(), b"b")
        assert store.take(store.release("a", claim()).outgoing)

    def test_a_long_line_is_named_and_ended(self, emulator_server: EmulatorServer) -> None:
        """More waits than a transaction has items."""
        now = [1000.0]
        table = emulator_server.new_table()
        with closing(emulator_server.store(table, timeout=20.0, now=lambda: now[0])) as store:
            store.acquire(claim(), "a")
            store.ask("s")
            tickets = [Ticket(f"t{n}:1", 9, n + 1) for n in range(130)]
            waits = [HeldWait(each, tuple(claim())) for each in tickets]
            found = store.name("s", waits)
            assert {*found.values()} == {Standing.WAITS}
            assert store.snapshot("api").waiting == 130
            for _ in range(40):
                now[0] += 9
                store.reap()
            assert store.snapshot("api").waiting == 0
            assert count(store, "w#") == 0


def count(store: DynamoStore, begins: str) -> int:
    items = store._link.call("scan", ConsistentRead=True)["Items"]
    return sum(item["pk"]["S"].startswith(begins) for item in items)


def test_a_parked_message_is_counted_and_safe(store: DynamoStore) -> None:
    store.acquire(claim(), "a")
    for n in range(3):
        park(store, f"b{n}")
    found = store.durability(2)
    assert (found.safety, found.parked) == (Safety.COMMITTED, 2)
    assert [store.durability(most).parked for most in (9, 1, 0)] == [3, 1, 0]


def test_nothing_is_left_of_what_has_ended_but_what_expires(store: DynamoStore) -> None:
    store.acquire(claim(), "a")
    store.ask("s")
    park(store, "b")
    refusal_of(store.acquire(claim(), "c", Wait(Kind.REQUEUE, session="s")))
    for holder in "abc":
        store.release(holder, claim())
    for n in range(MOST):  # more tombstones than a resource holds by itself
        store.release(f"h{n}", claim())
    for grant in store.take(frozenset({"api"})):
        store.sent([grant])
        store.release(grant.ticket, claim())
    items = store._link.call("scan", ConsistentRead=True)["Items"]
    assert {item["pk"]["S"] for item in items if "ttl" not in item} == {"store#"}
    assert {item["pk"]["S"][0] for item in items} == {*"srt"}


def test_a_hint_of_a_grant_expires(store: DynamoStore) -> None:
    """Without it one that was written in vain, before a commit that others won, is left for ever."""
    store.acquire(claim(), "a")
    store.ask("s")
    refusal_of(store.acquire(claim(), "b", Wait(Kind.REQUEUE, session="s")))
    assert store.release("a", claim()).granted
    items = store._link.call("scan", ConsistentRead=True)["Items"]
    [hint] = [item for item in items if item["pk"]["S"] == "g#s"]
    assert int(hint["ttl"]["N"]) > time.time() + 3600


def test_a_table_that_comes_back_is_used_again(
    emulator_server: EmulatorServer, store: DynamoStore
) -> None:
    permit_of(store.acquire(claim(), "a"))
    assert emulator_server.process
    emulator_server.process.pause()
    try:
        store._timeout = store._link.timeout = 0.5
        with pytest.raises(StoreUnavailable):
            store.acquire(claim(), "b")
    finally:
        emulator_server.process.resume()

    def admitted() -> Any:
        try:
            return refusal_of(store.acquire(claim(), "b"))
        except StoreUnavailable:
            return None

    assert wait_until(admitted, 20, "it answers").occupied == 1
