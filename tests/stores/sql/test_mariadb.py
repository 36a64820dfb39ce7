"""Permits in MariaDB: what only a server has."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import get_context
from typing import Any

import pymysql
import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.durability import Safety
from celery_semaphore.core.refusal import Reason
from celery_semaphore.errors import ConfigurationError, StoreFull, StoreUnavailable
from celery_semaphore.stores.documents.documents import Document, Key
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.sql.documents import SqlTransaction
from celery_semaphore.stores.sql.mysql import Mysql
from celery_semaphore.stores.sql.store import SqlStore
from tests.stores.conftest import claim, permit_of, refusal_of
from tests.stores.lost_answers import LostAnswers
from tests.support.calling import SOON
from tests.support.mariadb import MariaServer
from tests.support.proxy import Proxy

pytestmark = pytest.mark.variants
FORK = get_context("fork")
Parameters = dict[str, Any]


@pytest.fixture
def parameters(mariadb_server: MariaServer) -> Parameters:
    return mariadb_server.new_database()


@pytest.fixture
def store(mariadb_server: MariaServer, parameters: Parameters) -> Iterator[SqlStore]:
    with closing(mariadb_server.store(parameters)) as store:
        yield store


def opened(parameters: Parameters, **changed: Any) -> SqlStore:
    return SqlStore(Mysql(pymysql, parameters | changed), StoreOptions(), origin="DATABASES['x']")


class TestLostAnswersOnMariadb(LostAnswers):
    @pytest.fixture
    def server(self, mariadb_server: MariaServer) -> MariaServer:
        return mariadb_server

    @pytest.fixture
    def cut_off(self, proxy: Proxy, parameters: Parameters, store: SqlStore) -> Iterator[SqlStore]:
        store.snapshot("api")  # it is in use
        with closing(opened(parameters, port=proxy.port)) as cut_off:
            yield cut_off


def test_a_worker_makes_no_table_but_says_what_to_run(parameters: Parameters) -> None:
    with closing(opened(parameters)) as store:
        assert store.about().tables == 0
        with pytest.raises(ConfigurationError, match=r"DATABASES\['x'\] has no table"):
            store.check()
        assert store.install() == [1]
        assert store.install() == []
        assert store.check(parks=True) == []
        assert store.about().server.startswith("MariaDB 10.")


def test_a_database_that_is_not_there(parameters: Parameters) -> None:
    with closing(opened(parameters, database="nowhere")) as store:
        with pytest.raises(ConfigurationError, match=r"DATABASES\['x'\]: .*nowhere"):
            store.check()
        with pytest.raises(StoreUnavailable, match="nowhere"):
            store.acquire(claim(), "a")


def test_a_server_that_does_not_flush_says_so(
    mariadb_server: MariaServer, parameters: Parameters, store: SqlStore
) -> None:
    assert store.durability(1).safety is Safety.COMMITTED
    with mariadb_server.without_flushes():
        assert store.durability(1).safety is Safety.LOGGED
        [said] = store.check(parks=True)
        assert "innodb_flush_log_at_trx_commit is 2" in said


def test_the_clock_is_the_servers(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 5.0)
    assert permit_of(store.acquire(claim(), "a")).acquired_at > 1e9


def test_connections_that_the_server_has_closed_are_made_anew(
    mariadb_server: MariaServer, store: SqlStore
) -> None:
    permit_of(store.acquire(claim(2), "a"))
    with closing(mariadb_server.connect()) as connection:
        cursor = connection.cursor()
        for each in store._link._idle:
            cursor.execute(f"KILL {each.thread_id()}")
    permit_of(store.acquire(claim(2), "b"))


def test_a_row_that_is_locked_for_too_long_is_an_outage_that_ends(
    mariadb_server: MariaServer, parameters: Parameters, store: SqlStore
) -> None:
    store.acquire(claim(3), "a")
    with closing(mariadb_server.connect(database=parameters["database"])) as other:
        other.cursor().execute("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        other.begin()
        other.cursor().execute("UPDATE celery_semaphore_document SET due = 1 WHERE pk = 'r#api'")
        with pytest.raises(StoreUnavailable, match="Lock wait timeout"):
            store.acquire(claim(3), "b")
        permit_of(store.acquire(claim(of="disk"), "b"))
        other.rollback()
    permit_of(store.acquire(claim(3), "c"))


def test_a_message_that_is_too_large_is_refused_as_by_a_full_store(
    mariadb_server: MariaServer, store: SqlStore
) -> None:
    from tests.stores.conftest import PARK  # noqa: PLC0415

    store.acquire(claim(), "a")
    ticket = refusal_of(store.acquire(claim(), "b", PARK)).ticket
    assert ticket
    with closing(mariadb_server.connect()) as connection:
        connection.cursor().execute("SET GLOBAL max_allowed_packet = 1024 * 1024")
        store.close()
        try:
            with pytest.raises((StoreFull, StoreUnavailable)):
                store.attach(ticket, claim(), os.urandom(3_000_000))
        finally:
            connection.cursor().execute("SET GLOBAL max_allowed_packet = 16 * 1024 * 1024")
    store.close()
    store.attach(ticket, claim(), b"small")


def test_a_client_that_is_stopped_before_its_commit_keeps_nobody_waiting(
    parameters: Parameters, store: SqlStore
) -> None:
    ready = FORK.Event()

    def stop_before_commit() -> None:
        mine = opened(parameters)
        begin = mine._documents.begin

        def begin_and_stop(keys: Any, **how: Any) -> Any:
            transaction = begin(keys, **how)
            mine._documents.begin = begin  # type: ignore[method-assign]
            ready.set()
            os.kill(os.getpid(), signal.SIGSTOP)
            return transaction

        mine._documents.begin = begin_and_stop  # type: ignore[method-assign]
        mine.acquire(claim(), "stopped")

    store.snapshot("api")
    child = FORK.Process(target=stop_before_commit)
    child.start()
    try:
        assert ready.wait(20)
        began = time.monotonic()
        permit_of(store.acquire(claim(), "a"))
        assert time.monotonic() - began < 1
        assert child.pid
        os.kill(child.pid, signal.SIGCONT)
        child.join(20)
        assert [each.holder for each in store.snapshot("api").holders] == ["a"]
    finally:
        child.kill()


def test_two_resources_in_either_order_do_not_block_each_other(
    parameters: Parameters, store: SqlStore
) -> None:
    """Rows are written in the order of their keys, whatever the order of the claims is."""
    errors: list[BaseException] = []

    def acquire_many(name: str, wanted: Callable[[], list[Any]]) -> None:
        with closing(opened(parameters)) as mine:
            for n in range(20):
                try:
                    permit_of(mine.acquire(wanted(), f"{name}-{n}"))
                    mine.release(f"{name}-{n}", wanted())
                except BaseException as error:  # noqa: BLE001 - it is told below
                    errors.append(error)

    ways = (lambda: claim(9) + claim(9, of="disk"), lambda: claim(9, of="disk") + claim(9))
    threads = [
        threading.Thread(target=acquire_many, args=(f"{n}", way)) for n, way in enumerate(ways)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize("named", [True, False])
def test_a_call_that_is_alone_keeps_others_from_its_resource_only(
    store: SqlStore, named: bool
) -> None:
    """It locks what it names when it begins, and another resource when it first loads it."""
    for name in ("api", "disk"):
        permit_of(store.acquire(claim(9, of=name), "a"))
    key = Key("r", "api")
    alone = store._sql.begin([key] if named else [], alone=True)
    try:
        alone.get(key)
        permit_of(store.acquire(claim(9, of="disk"), "b"))
        with pytest.raises(StoreUnavailable):
            store.acquire(claim(9), "b")
        body = alone.get(key)
        assert body
        assert alone.commit({key: Document(body)}, {})
    finally:
        alone.end()
    permit_of(store.acquire(claim(9), "c"))


def test_the_end_of_an_attempt_replaces_no_exception_that_is_under_way(
    mariadb_server: MariaServer, store: SqlStore
) -> None:
    """Without it a soft time limit, for instance, is lost if it has left the connection unusable."""

    def interrupted() -> None:
        alone: Any = store._sql.begin([Key("r", "api")], alone=True)
        try:
            with closing(mariadb_server.connect()) as connection:
                connection.cursor().execute(f"KILL {alone._locked.thread_id()}")
            raise KeyboardInterrupt
        finally:
            alone.end()

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert store._link._idle == []
    permit_of(store.acquire(claim(), "a"))


def test_a_call_that_is_alone_and_loses_its_connection_is_made_again(
    mariadb_server: MariaServer, store: SqlStore
) -> None:
    permit_of(store.acquire(claim(9), "a"))
    store._documents.alone_after = 0
    begin, cut = store._documents.begin, list[int]()

    def begin_and_cut(keys: Any, **how: Any) -> Any:
        transaction: Any = begin(keys, **how)
        if not cut:
            with closing(mariadb_server.connect()) as connection:
                cut.append(connection.cursor().execute(f"KILL {transaction._locked.thread_id()}"))
        return transaction

    store._documents.begin = begin_and_cut  # type: ignore[method-assign]
    permit_of(store.acquire(claim(9), "b"))
    assert cut
    assert store.snapshot("api").occupied == 2


def test_a_pause_waits_for_an_acquire_that_makes_its_key(
    parameters: Parameters, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule R4. The acquire has read what operators decided; there is no document of the key to be written anew."""
    claims, happened, is_paused = [Claim("api", "x", 2)], list[str](), threading.Event()
    is_as_read = SqlTransaction._is_store_as_read
    store.release("b", claim(of="disk"))  # so that there is a document of the store
    with closing(opened(parameters)) as other:

        def pause() -> None:
            other.pause("api")
            happened.append("paused")
            is_paused.set()

        pausing = threading.Thread(target=pause, daemon=True)

        def pause_meanwhile(transaction: SqlTransaction, connection: Any) -> bool:
            monkeypatch.undo()
            found = is_as_read(transaction, connection)
            pausing.start()
            is_paused.wait(1.0)
            return found

        monkeypatch.setattr(SqlTransaction, "_is_store_as_read", pause_meanwhile)
        permit_of(store.acquire(claims, "a"))
        happened.append("acquired")
        pausing.join(SOON)
        assert happened == ["acquired", "paused"]
        assert refusal_of(other.acquire(claims, "b")).reason is Reason.PAUSED
