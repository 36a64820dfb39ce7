"""Permits in a file of SQLite: what only it has."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from multiprocessing import get_context
from pathlib import Path

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core.durability import Safety
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import ConfigurationError, StoreFull, StoreUnavailable
from celery_semaphore.stores.documents import state
from celery_semaphore.stores.non_reentrant_lock import AlreadyInCall
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.sql.dialects import NoTable
from celery_semaphore.stores.sql.sqlite import Sqlite
from celery_semaphore.stores.sql.store import SqlStore
from tests.stores.conftest import claim, park, permit_of, refusal_of
from tests.support.process import wait_until
from tests.support.sqlite import new_file, sqlite_store

FORK = get_context("fork")


@pytest.fixture(params=["wal", "delete"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return new_file(tmp_path, mode=request.param)


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    with closing(sqlite_store(path)) as store:
        yield store


def bare(path: Path, *, timeout: float = 2.0) -> SqlStore:
    """A store that makes no table."""
    return SqlStore(Sqlite({"database": str(path)}), StoreOptions(timeout=timeout))


def count(path: Path, kind: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT count(*) FROM celery_semaphore_document WHERE pk LIKE ?"
        (found,) = connection.execute(sql, (f"{kind}#%",)).fetchone()
    return int(found)


class TestInstallation:
    def test_a_worker_makes_no_table_but_says_what_to_run(self, path: Path) -> None:
        with closing(bare(path)) as store:
            assert store.about().tables == 0
            with pytest.raises(ConfigurationError, match="semaphore install") as error:
                store.check()
            assert "'celery_semaphore_document'" in str(error.value)
            with pytest.raises(StoreUnavailable, match="semaphore install"):
                store.acquire(claim(), "a")
            assert store.install() == [1]
            assert store.install() == []
            store.check()
            assert store.about().tables == 1

    def test_a_table_that_is_missing_is_no_lock_whatever_its_name_is(self, path: Path) -> None:
        options = StoreOptions(prefix="locked")
        with (
            closing(SqlStore(Sqlite({"database": str(path)}), options)) as store,
            pytest.raises(NoTable),
        ):
            store._sql.rows("SELECT 1 FROM {table}")

    def test_the_script_makes_the_table(self, path: Path) -> None:
        with closing(bare(path)) as store:
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(store.script())
            assert store.install() == []

    def test_check_says_that_it_serves_one_host(self, store: SqlStore) -> None:
        [said] = store.check(parks=True)
        assert "a file of this host" in said
        assert store.about().server == f"SQLite {sqlite3.sqlite_version}"

    def test_a_prefix_that_names_no_table(self) -> None:
        with pytest.raises(ConfigurationError, match="semaphore_prefix='two words'"):
            SqlStore(Sqlite({"database": "x"}), StoreOptions(prefix="two words"))

    def test_two_prefixes_are_two_stores(self, path: Path) -> None:
        stores = [sqlite_store(path, prefix=prefix) for prefix in ("one", "two-x")]
        for store in stores:
            permit_of(store.acquire(claim(), "a"))
            store.close()

    def test_a_file_that_cannot_be_opened(self, tmp_path: Path) -> None:
        with (
            closing(bare(tmp_path / "no folder" / "x")) as store,
            pytest.raises(StoreUnavailable, match="no folder"),
        ):
            store.check()


class TestFile:
    def test_a_transaction_of_the_project_that_reads_keeps_no_call_waiting(
        self, tmp_path: Path
    ) -> None:
        """Only with a write-ahead log."""
        path = new_file(tmp_path)
        with (
            closing(sqlite_store(path)) as store,
            closing(sqlite3.connect(path, isolation_level=None)) as project,
        ):
            project.execute("BEGIN")
            project.execute("SELECT count(*) FROM celery_semaphore_document").fetchall()
            permit_of(store.acquire(claim(), "a"))
            store.release("a", claim())

    def test_one_that_writes_for_too_long_is_an_outage_that_ends(self, path: Path) -> None:
        with (
            closing(sqlite_store(path, timeout=0.4)) as store,
            closing(sqlite3.connect(path, isolation_level=None)) as project,
        ):
            project.execute("BEGIN IMMEDIATE")
            began = time.monotonic()
            with pytest.raises(StoreUnavailable, match="has locked") as error:
                store.acquire(claim(), "a")
            assert time.monotonic() - began < 1
            assert str(path) in error.value.reason
            project.execute("ROLLBACK")
            permit_of(store.acquire(claim(), "b"))

    @pytest.mark.parametrize("call", ["check", "about", "durability", "install", "reap"])
    def test_every_call_says_that_it_is_an_outage(self, tmp_path: Path, call: str) -> None:
        path = new_file(tmp_path, mode="delete")
        with (
            closing(sqlite_store(path, timeout=0.1)) as store,
            closing(sqlite3.connect(path, isolation_level=None)) as project,
        ):
            project.execute("BEGIN EXCLUSIVE")
            with pytest.raises(StoreUnavailable, match="has locked"):
                getattr(store, call)(*([1] if call == "durability" else []))

    @pytest.mark.parametrize("call", ["check", "about", "durability", "install", "reap"])
    def test_every_call_waits_for_a_moment(self, tmp_path: Path, call: str) -> None:
        """Without it a statement that has waited long enough ends the call, or a migration that begins does."""
        path = new_file(tmp_path, mode="delete")
        with (
            closing(sqlite_store(path, timeout=20)) as store,
            closing(
                sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            ) as project,
        ):
            store.close()
            store._link.timeout = 0.0  # a statement does not wait
            project.execute("BEGIN EXCLUSIVE")
            timer = threading.Timer(0.1, project.execute, ("ROLLBACK",))
            timer.start()
            getattr(store, call)(*([1] if call == "durability" else []))
            timer.join()

    def test_one_that_writes_for_a_moment_is_waited_for(self, path: Path, store: SqlStore) -> None:
        with closing(
            sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        ) as project:
            project.execute("BEGIN IMMEDIATE")
            timer = threading.Timer(0.2, project.execute, ("ROLLBACK",))
            timer.start()
            permit_of(store.acquire(claim(), "a"))
            timer.join()

    def test_a_full_disk(self, path: Path, store: SqlStore) -> None:
        permit_of(store.acquire(claim(), "a"))
        ticket = refusal_of(store.acquire(claim(), "b", Wait(Kind.PARK))).ticket
        assert ticket
        with store._link.connection() as connection:
            pages = connection.execute("PRAGMA page_count").fetchone()[0]
            connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreFull):
            store.attach(ticket, claim(), os.urandom(100_000))
        store.close()  # the bound was the connection's
        store.attach(ticket, claim(), os.urandom(100_000))

    def test_a_message_is_flushed_before_its_broker_forgets_it(
        self, path: Path, store: SqlStore
    ) -> None:
        def levels() -> list[int]:
            found: list[int] = [
                connection.execute("PRAGMA synchronous").fetchone()[0]
                for connection in store._link._idle
            ]
            return found

        wal, full, normal = path.read_bytes()[18] == 2, 2, 1  # the header says whether it has a log
        store.acquire(claim(), "a")
        assert levels() == [normal if wal else full]
        park(store, "b")
        assert levels() == [full]
        store.acquire(claim(of="disk"), "c")
        assert levels() == [normal if wal else full]

    def test_a_parked_message_is_counted_and_safe(self, path: Path, store: SqlStore) -> None:
        store.acquire(claim(), "a")
        for n in range(3):
            park(store, f"b{n}")
        found = store.durability(2)
        assert (found.safety, found.parked) == (Safety.COMMITTED, 2)
        assert str(path) in found.place

    def test_nothing_is_left_of_what_has_ended(self, path: Path) -> None:
        now = [1000.0]
        with closing(sqlite_store(path, now=lambda: now[0])) as store:
            store.acquire(claim(), "a")
            store.ask("s")
            park(store, "b")
            refusal_of(store.acquire(claim(), "c", Wait(Kind.REQUEUE, session="s")))
            assert count(path, "w") == 2
            for holder in "abc":
                store.release(holder, claim())
            for grant in store.take(frozenset({"api"})):
                store.sent([grant])
                store.release(grant.ticket, claim())
            assert [count(path, kind) for kind in "wgnp"] == [0, 0, 0, 0]
            assert count(path, "t") == 3
            for _ in range(40):
                now[0] += 10
                store.reap()
            assert [count(path, kind) for kind in "trs"] == [0, 0, 0]
            assert count(path, "store") == 1


class TestLine:
    def test_a_line_that_is_too_long_gives_no_place_and_says_so_once(
        self, store: SqlStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(state, "LONGEST_LINE", 2)
        store.acquire(claim(), "a")
        store.ask("s")
        wait = Wait(Kind.REQUEUE, session="s")
        tickets = [refusal_of(store.acquire(claim(), holder, wait)).ticket for holder in "bc"]
        with caplog.at_level(logging.WARNING):
            for holder in "de":
                refused = refusal_of(store.acquire(claim(), holder, wait))
                assert (refused.reason, refused.ticket) == (Reason.SATURATED, None)
                assert refused.retry_after > 0
        assert len(caplog.records) == 1
        assert "line of api" in caplog.text
        again = Wait(Kind.REQUEUE, tickets[1], session="s")
        assert refusal_of(store.acquire(claim(), "c2", again)).ticket == tickets[1]


def has_open(path: Path) -> bool:
    """Return whether this process has the file open."""
    return path.resolve() in [each.resolve() for each in Path("/proc/self/fd").iterdir()]


def exit_code_of_child(target: Callable[[], bool]) -> int | None:
    child = FORK.Process(target=lambda: os._exit(0 if target() else 1))
    child.start()
    try:
        child.join(30)
        return child.exitcode
    finally:
        child.kill()
        child.join()


class TestProcesses:
    def test_a_child_has_no_connection_of_its_parent(self, path: Path, store: SqlStore) -> None:
        permit_of(store.acquire(claim(), "a"))
        assert has_open(path)

        def can_use_it() -> bool:
            inherited = has_open(path)
            seen = refusal_of(store.acquire(claim(), "child")).occupied == 1
            permit_of(store.acquire(claim(of="disk"), "child"))
            return seen and not inherited

        with store._link.writing():  # held by the thread that forks
            assert exit_code_of_child(can_use_it) == 0
        store.release("a", claim())

    def test_a_process_that_forks_waits_for_its_calls(self, path: Path) -> None:
        """Without it the child has what a thread of its parent had locked at that moment, and nothing unlocks it."""
        begun, forking = threading.Event(), threading.Event()

        def call(store: SqlStore) -> None:
            with store._link.connection():
                begun.set()
                with suppress(TimeoutError):
                    wait_until(lambda: not store._link._limits._of_all.free.qsize(), 10, "it forks")
                    forking.set()

        with closing(sqlite_store(path, timeout=20)) as store:
            thread = threading.Thread(target=call, args=(store,))
            thread.start()
            assert begun.wait(20)
            assert exit_code_of_child(lambda: not has_open(path)) == 0
            thread.join()
            assert forking.is_set()
            permit_of(store.acquire(claim(), "a"))

    def test_a_process_that_forks_waits_for_a_bounded_time(self, path: Path) -> None:
        with closing(sqlite_store(path, timeout=0.2)) as store, store._link.connection():
            assert exit_code_of_child(lambda: True) == 0
            permit_of(store.acquire(claim(), "a"))

    def test_a_child_keeps_the_log_that_its_parent_closes(self, tmp_path: Path) -> None:
        """Without it the child has no lock, the next process deletes the log, and there are two permits of one."""
        path, acquired, closed = new_file(tmp_path), FORK.Event(), FORK.Event()
        with closing(sqlite_store(path)) as store:
            permit_of(store.acquire(claim(of="disk"), "a"))

            def acquire() -> None:
                store.acquire(claim(of="disk"), "child")
                acquired.set()
                closed.wait(20)
                permit_of(store.acquire(claim(), "child"))
                os._exit(0)

            child = FORK.Process(target=acquire)
            child.start()
            assert acquired.wait(20)
            store.close()
            script = f"import sqlite3; c = sqlite3.connect({str(path)!r}); c.execute('PRAGMA user_version'); c.close()"
            subprocess.run([sys.executable, "-S", "-c", script], check=True)
            closed.set()
            child.join(20)
            assert child.exitcode == 0
            assert refusal_of(store.acquire(claim(), "b")).occupied == 1

    def test_a_client_that_is_stopped_before_its_commit_keeps_nobody_waiting(
        self, path: Path, store: SqlStore
    ) -> None:
        ready = FORK.Event()

        def stop_before_commit() -> None:
            mine = sqlite_store(path)
            begin = mine._documents.begin

            def begin_and_stop(keys: object, **how: bool) -> object:
                assert not how["alone"]
                transaction = begin(keys)  # type: ignore[arg-type]
                mine._documents.begin = begin  # type: ignore[method-assign]
                ready.set()
                os.kill(os.getpid(), signal.SIGSTOP)
                return transaction

            mine._documents.begin = begin_and_stop  # type: ignore[method-assign, assignment]
            mine.acquire(claim(), "stopped")

        child = FORK.Process(target=stop_before_commit)
        child.start()
        try:
            assert ready.wait(20)
            wait_until(lambda: is_stopped(child.pid), 10, "it is stopped")
            began = time.monotonic()
            permit_of(store.acquire(claim(), "a"))
            permit_of(store.acquire(claim(of="disk"), "a"))
            assert time.monotonic() - began < 1
            assert child.pid
            os.kill(child.pid, signal.SIGCONT)
            child.join(20)
            assert child.exitcode == 0
            assert [each.holder for each in store.snapshot("api").holders] == ["a"]
        finally:
            child.kill()

    def test_a_signal_handler_that_calls_meanwhile_is_refused_at_once(
        self, store: SqlStore
    ) -> None:
        with store._link.writing(), pytest.raises(AlreadyInCall):
            store.acquire(claim(), "a")

    def test_threads_of_one_process(self, store: SqlStore) -> None:
        admitted: list[str] = []

        def acquire_many(name: str) -> None:
            for n in range(20):
                permit = permit_of(store.acquire(claim(9), f"{name}-{n}"))
                admitted.append(permit.holder)
                store.release(permit.holder, claim(9))

        threads = [threading.Thread(target=acquire_many, args=(name,)) for name in "abcd"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(admitted) == 80
        assert store.snapshot("api").occupied == 0


def is_stopped(pid: int | None) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_call_without_a_place_asks_again_by_itself(
    path: Path, store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a grant it would be told; without one it does not wait for its next question, a third of a lease later."""
    monkeypatch.setattr(state, "LONGEST_LINE", 0)
    held = permit_of(store.acquire(claim(), "a"))
    with closing(sqlite_store(path)) as mine:
        timer = threading.Timer(0.3, store.release, ("a", held.claims))
        timer.start()
        began = time.monotonic()
        with Semaphore("api", limit=1, store=mine).permit(timeout=9):
            assert time.monotonic() - began < 5
        timer.join()
