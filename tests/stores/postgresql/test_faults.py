"""Answers that are lost, servers that hang, restart or crash, and settings that others made."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.stores.postgresql import PostgresStore
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import parked
from tests.conformance.suite import UsedClock
from tests.stores.conftest import PARK, claim, park, permit_of, refusal_of
from tests.stores.lost_answers import LostAnswers
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.variants import also

from .conftest import OpenAt, StartServer, crowd

FORK = get_context("fork")


def test_what_it_cannot_keep_is_no_outage(server: PostgresServer, open_at: OpenAt) -> None:
    store = open_at(server.database("postgres"))
    with pytest.raises(SemaphoreError, match=r"cannot take .* out of range") as caught:
        store._link.ask(lambda connection: connection.query("SELECT '10000000000'::int"))
    assert not isinstance(caught.value, StoreUnavailable)
    permit_of(store.acquire(claim(), "b"))


def test_a_limit_of_the_program_is_no_outage(store: PostgresStore) -> None:
    """Such as the size of an index row: it would be exceeded again."""
    with pytest.raises(SemaphoreError, match=r"cannot take .* length too large") as caught:
        store._link.ask(lambda connection: connection.query("SELECT repeat('x', 1 << 30)"))
    assert not isinstance(caught.value, StoreUnavailable)


class TestLostAnswers(LostAnswers):
    @pytest.fixture
    def cut_off(self, server: PostgresServer, proxy: Proxy, open_at: OpenAt) -> PostgresStore:
        """A store whose answers may be lost; it has been used."""
        store = open_at(server.database("postgres", port=proxy.port), timeout=1.0)
        store.release("warm", claim(of="warm"))
        return store

    def test_a_server_that_hangs(self, proxy: Proxy, cut_off: PostgresStore) -> None:
        """One answer, and one connecting, for which libpq takes two seconds at least."""
        proxy.hang()
        start = time.monotonic()
        with pytest.raises(StoreUnavailable):
            cut_off.acquire(claim(), "a")
        assert time.monotonic() - start < 1 + 2 + 1
        proxy.restore()
        permit_of(cut_off.acquire(claim(of="other"), "z"))

    def test_an_interrupted_call_leaves_no_answer_behind(self, cut_off: PostgresStore) -> None:
        """A time limit strikes between question and answer; the next call must get its own."""

        class Interrupt(BaseException):
            pass

        def interrupted(connection: object) -> None:
            connection._libpq.send_query(b"SELECT 'not yours'")  # type: ignore[attr-defined]
            raise Interrupt

        with pytest.raises(Interrupt):
            cut_off._link.ask(interrupted)
        permit_of(cut_off.acquire(claim(), "a"))


DISK = claim(of="disk")


class TestRestarts:
    def test_immediately(self, start_server: StartServer, open_at: OpenAt) -> None:
        """What was written last may be missing, so the living come first."""
        server = start_server()
        store = open_at(server.url, lease=3.0)
        permit = permit_of(store.acquire(claim(), "a"))
        before = store.epoch
        server.stop_immediately()
        server.start()
        answer = refusal_of(open_at(server.url, lease=3.0).acquire(claim(2), "b"))
        assert answer.reason is Reason.RECOVERING
        assert store.renew([permit])["a"] in (Renewal.OK, Renewal.RESTORED)
        assert (store.epoch or 0) > (before or 0)

        def over() -> bool:
            store.renew([permit])
            return refusal_of(store.acquire(claim(), "c")).reason is Reason.SATURATED

        wait_until(over, 10, "the living have come")

    def test_politely(self, start_server: StartServer, open_at: OpenAt) -> None:
        """Nothing is lost, but nobody could renew: an overdue lease of one who lives is renewed."""
        server = start_server()
        store = open_at(server.url, lease=1.0)
        permit = permit_of(store.acquire(claim(2), "a"))
        permit_of(store.acquire(claim(2), "b"))
        store.release("b", claim(2))
        permit_of(store.acquire(DISK, "c"))
        store.release("c", DISK)
        server.stop_politely()
        time.sleep(1.1)
        server.start()
        there = refusal_of(open_at(server.url, lease=1.0).acquire(DISK, "d"))
        assert there.reason is Reason.RECOVERING, "where nothing is overdue as well"
        answer = refusal_of(open_at(server.url, lease=1.0).acquire(claim(2), "c"))
        assert answer.reason is Reason.RECOVERING
        assert store.renew([permit]) == {"a": Renewal.OK}

    def test_a_killed_backend_is_a_crash(self, start_server: StartServer, open_at: OpenAt) -> None:
        """The server's main process goes on, and starts all others anew."""
        server = start_server()
        store = open_at(server.url, lease=3.0)
        permit = permit_of(store.acquire(claim(), "a"))
        before = store.epoch
        with server.client() as client:
            os.kill(client.info.backend_pid, signal.SIGKILL)

        def recovered() -> bool:
            try:
                return store.renew([permit])["a"] is not Renewal.LOST and store.epoch != before
            except StoreUnavailable:
                return False

        wait_until(recovered, 10)
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING

    def test_what_is_parked_outlives_a_crash(
        self, start_server: StartServer, open_at: OpenAt
    ) -> None:
        """Even of a server that would rather not wait for its disk."""
        server = start_server(synchronous_commit="off", wal_writer_delay="10s")
        store = open_at(server.url, lease=1.0)
        permit_of(store.acquire(claim(), "a"))
        park(store, "b")
        server.stop_immediately()
        server.start()
        store = open_at(server.url, lease=1.0)
        messages: list[bytes] = []

        def came() -> list[bytes]:
            messages.extend(grant.payload for grant in store.take(store.reap()))
            return messages

        assert wait_until(came, 10) == [b"b"]


@contextmanager
def stuck(server: PostgresServer) -> Iterator[None]:
    """Meanwhile, another session has the lock of the resource "b"."""
    with server.client() as client, client.transaction():
        client.execute("SELECT celery_semaphore.v1_lock(ARRAY['b'])")
        yield


def end_the_silence(store: PostgresStore) -> None:
    """Call, and wait as long as living holders have to renew after it; the dead ones' permits are over then."""
    store.snapshot("api")
    time.sleep(store.lease)


@contextmanager
def three_due_but_one_stuck(store: PostgresStore, server: PostgresServer) -> Iterator[None]:
    for name in "abc":
        store.acquire(claim(of=name), "killed")
    wait_until(lambda: len(server.run(DUE)) == 3, 5)
    end_the_silence(store)
    with stuck(server):
        yield


class TestStuckResources:
    def test_the_permits_of_others_are_renewed(
        self, store: PostgresStore, server: PostgresServer
    ) -> None:
        asked = {name: claim(2, of=name) for name in "abc"}
        asked["d"] = claim(2, of="d") + claim(2, of="b")
        permits = [permit_of(store.acquire(wanted, holder)) for holder, wanted in asked.items()]
        with stuck(server):
            began = time.monotonic()
            assert store.renew(permits) == {"a": Renewal.OK, "c": Renewal.OK}
            assert (
                time.monotonic() - began < 2 * 5.0
            )  # the store's timeout, once for all that are stuck
        assert store.renew(permits) == dict.fromkeys("abcd", Renewal.OK)

    def test_what_many_use_is_waited_for(
        self, store: PostgresStore, server: PostgresServer
    ) -> None:
        """Its turn comes in a moment: it must not be passed over each time."""
        permits = [permit_of(store.acquire(claim(of=name), name)) for name in "ab"]
        with ThreadPoolExecutor() as others:
            with stuck(server):
                asked = others.submit(store.renew, permits)
                wait_until(lambda: server.run(WAITING), 5)
            assert asked.result() == dict.fromkeys("ab", Renewal.OK)

    def test_others_are_reaped(self, server: PostgresServer, open_at: OpenAt) -> None:
        store = open_at(server.url, lease=0.1, timeout=20.0)
        with three_due_but_one_stuck(store, server):
            began = time.monotonic()
            store.reap()
            assert time.monotonic() - began < 4, "it waits for nothing"
            assert list(store.resources()) == ["b"]
        store.reap()
        assert list(store.resources()) == []

    def test_what_is_stuck_since_it_was_claimed_is_passed_over(
        self, server: PostgresServer, open_at: OpenAt
    ) -> None:
        store = open_at(server.url, lease=0.1, timeout=0.5)
        with three_due_but_one_stuck(store, server):
            assert store._runner.reap(["a", "b", "c"]) == frozenset()
            assert list(store.resources()) == ["b"]

    def test_a_second_resource_that_heads_need_delays_no_reap(
        self, server: PostgresServer, open_at: OpenAt
    ) -> None:
        """The thread that reaps asks for grants, too: it must not wait for the lock once for each head."""
        store = open_at(server.url, lease=0.1, timeout=6.0)
        for name in "acd":
            store.acquire(claim(of=name), "killed")
            parked(store, claim(of=name) + claim(3, of="b"), name)
        wait_until(lambda: {("a",), ("c",), ("d",)} <= set(server.run(DUE)), 5)
        end_the_silence(store)
        with stuck(server):
            began = time.monotonic()
            assert store.take(store.reap()) == []
            assert time.monotonic() - began < 4
        found = list[bytes]()

        def are_sent() -> bool:
            found.extend(grant.payload for grant in store.take(store.reap()))
            return sorted(found) == [b"a", b"c", b"d"]

        wait_until(are_sent, 5, "they are due still")


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE celery_semaphore.permit SET weight = 9223372036854775807 WHERE resource = 'b'",
        "ALTER TABLE celery_semaphore.permit ADD CHECK (resource <> 'b' OR holder IS NOT NULL)",
    ],
)
def test_others_are_reaped_where_one_cannot_be(
    server: PostgresServer,
    open_at: OpenAt,
    database: str,
    caplog: pytest.LogCaptureFixture,
    damage: str,
) -> None:
    """A row that breaks each look at one resource: the others have nothing to do with it."""
    clock = Clock()
    store = open_at(server.database(database), now=clock)
    store.install()
    for name in "abc":
        for holder in ("killed", "killed too"):
            store.acquire(claim(2, of=name), holder)
    server.run(damage, database=database)
    for _ in range(2):
        clock.advance(2 * store.lease)
        store.reap()
    assert server.run(HELD, database=database) == [("b",)]
    (told,) = [each for each in caplog.records if each.levelname == "ERROR"]
    assert "'b' cannot be reaped" in told.getMessage()


@pytest.mark.parametrize(
    ("slow", "reaped"), [("bdf", "aceghi"), *also(("b", "acdefghi"), ("abcdefghi", ""))]
)
def test_a_slow_server_is_not_asked_for_each_resource(
    server: PostgresServer, open_at: OpenAt, database: str, slow: str, reaped: str
) -> None:
    """Its role has a ``statement_timeout``: a hundred looks would each be cut off after that time."""
    clock = UsedClock()
    store = clock.store = open_at(server.database(database), now=clock)
    store.install()
    for name in "abcdefghi":
        store.acquire(claim(of=name), "killed")
    server.run(
        "CREATE FUNCTION drag() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(5); RETURN NEW; END'",
        "CREATE TRIGGER drag BEFORE UPDATE ON celery_semaphore.permit FOR EACH ROW"
        f" WHEN (strpos('{slow}', NEW.resource) > 0) EXECUTE FUNCTION drag()",
        f'ALTER DATABASE "{database}" SET statement_timeout = 1500',
        database=database,
    )
    store.close()  # the next connection has the time-out
    clock.advance(2 * store.lease)
    if reaped:
        store.reap()
    else:
        with pytest.raises(SemaphoreError, match="statement timeout"):
            store.reap()
    held = {name for (name,) in server.run(HELD, database=database)}
    assert held == set("abcdefghi") - set(reaped)


def test_a_store_that_fails_as_a_whole_says_so(
    server: PostgresServer, open_at: OpenAt, database: str
) -> None:
    clock = Clock()
    store = open_at(server.database(database), now=clock)
    store.install()
    store.acquire(claim(), "killed")
    clock.advance(2 * store.lease)
    server.run("DROP FUNCTION celery_semaphore.v1_reap", database=database)
    with pytest.raises(StoreUnavailable, match="semaphore install"):
        store.reap()


def test_what_was_sent_is_not_sent_again_after_a_crash(
    start_server: StartServer, open_at: OpenAt
) -> None:
    """The broker has it; a server that forgot so would hand it on once more."""
    server, clock = start_server(wal_writer_delay="10s"), Clock()
    store = open_at(server.url, now=clock)
    granted, ended = ("b", claim()), ("d", claim(0, of="paused"))
    store.acquire(claim(), "a")
    for holder, wanted in (granted, ended):
        ticket = refusal_of(store.acquire(wanted, holder, PARK)).ticket
        assert ticket
        store.attach(ticket, wanted, holder.encode(), name=holder)
    outgoing = store.release("a", claim()).outgoing | store.end(["d"])
    grants = store.take(outgoing)
    assert sorted(grant.payload for grant in grants) == [b"b", b"d"]
    store.sent(grants)
    server.stop_immediately()
    server.start()
    for _ in range(10):
        clock.advance(store.lease)
        assert store.take(store.reap()) == []
    assert list(store.resources()) == []


class TestAwayStandby:
    """A synchronous standby that does not confirm holds up each end of a transaction that waits for it."""

    def test_a_restart_without_it_costs_nobody_a_permit(
        self, start_server: StartServer, open_at: OpenAt
    ) -> None:
        """So it is after many a failover: the standby that is missing is the server before."""
        server = start_server()
        store = open_at(server.url, timeout=1.0)
        permit = permit_of(store.acquire(claim(), "a"))
        server.options["synchronous_standby_names"] = "away"
        server.stop_politely()
        server.start()
        wait_until(lambda: renewed(store, permit) is Renewal.OK, 10)
        assert refusal_of(store.acquire(claim(), "b")).reason is Reason.RECOVERING


def renewed(store: PostgresStore, permit: Permit) -> Renewal | None:
    """Renew it; None while the server cannot be reached."""
    try:
        return store.renew([permit])[permit.holder]
    except StoreUnavailable:
        return None


def test_many_that_were_sent_cost_one_flush(server: PostgresServer, open_at: OpenAt) -> None:
    store, wanted = open_at(server.url), claim(0, of="paused")
    for n in range(20):
        ticket = refusal_of(store.acquire(wanted, f"{n}", PARK)).ticket
        assert ticket
        store.attach(ticket, wanted, b"", name=f"{n}")
    grants = store.take(store.end([f"{n}" for n in range(20)]))
    assert len(grants) == 20
    before = server.run(TRANSACTIONS)
    store.sent(grants)
    assert server.run(TRANSACTIONS)[0][0] - before[0][0] == 1
    assert store.snapshot("paused").waiting == 0


# Each transaction that writes takes a number.
TRANSACTIONS = "SELECT txid_snapshot_xmax(txid_current_snapshot())"


@pytest.fixture(params=["read committed", "repeatable read", "serializable"])
def isolated(server: PostgresServer, request: pytest.FixtureRequest) -> str:
    """The URL of a role whose transactions see what was when they began, but for the first."""
    name = f"iso_{request.param[:4]}"
    server.run(
        f"DO $$ BEGIN CREATE ROLE {name} LOGIN SUPERUSER; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"ALTER ROLE {name} SET default_transaction_isolation = '{request.param}'",
    )
    return server.database("postgres", user=name)


DUE = "SELECT name FROM celery_semaphore.resource WHERE reap_at <= date_part('epoch', now()) * 1000000"
HELD = "SELECT DISTINCT resource FROM celery_semaphore.permit WHERE holder IS NOT NULL"
WAITING = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"


class TestOthersSettings:
    def test_another_isolation(self, open_at: OpenAt, isolated: str) -> None:
        """A snapshot from before the lock would show permits as free that are not."""
        store = open_at(isolated)
        inside = crowd(store, threads=6, times=25)
        assert 0 < inside.most <= 2
        ticket = refusal_of([store.acquire(claim(0), "x", PARK)][0]).ticket
        assert ticket
        store.set_limit(1, "api")
        grants = store.take(store.attach(ticket, claim(), b"\x00'\\\xff"))
        assert [grant.payload for grant in grants] == [b"\x00'\\\xff"]

    def test_another_isolation_where_workers_look_at_once(
        self, server: PostgresServer, open_at: OpenAt, isolated: str
    ) -> None:
        """What another worker claimed meanwhile is passed over: it is no error, and no other look waits for it."""
        ours, store = open_at(server.url, lease=0.1), open_at(isolated, lease=0.1)
        ours.acquire(claim(), "killed")
        ours.acquire(DISK, "killed too")
        wait_until(lambda: sorted(server.run(DUE)) == [("api",), ("disk",)], 5)
        end_the_silence(ours)
        with server.client() as client, client.transaction():
            client.execute(
                "UPDATE celery_semaphore.resource SET reap_at = reap_at + 1 WHERE name = 'api'"
            )
            assert store.reap() == frozenset()
            assert server.run(HELD) == [("api",)]
        store.reap()
        assert list(ours.resources()) == []

    @pytest.mark.parametrize("wanted", [claim(2), claim(2) + claim(2, of="disk")])
    def test_a_place_that_was_free_when_it_asked(
        self, server: PostgresServer, open_at: OpenAt, isolated: str, wanted: list[Claim]
    ) -> None:
        """By a store that was not yet told of the isolation."""
        for holder in "ab":
            permit_of(open_at(server.url).acquire(wanted, holder))
        for holder in "ab":
            open_at(server.url).release(holder, wanted)
        with ThreadPoolExecutor() as others:
            with server.client() as client, client.transaction():
                client.execute("SELECT pg_advisory_xact_lock(celery_semaphore.v1_lock_key('api'))")
                asked = others.submit(open_at(isolated).acquire, wanted, "c")
                wait_until(lambda: server.run(WAITING), 5)
                client.execute("UPDATE celery_semaphore.permit SET holder = row_no, ends = 9e15")
            assert refusal_of(asked.result()).occupied == 2

    def test_the_session_stays_as_it_was(self, store: PostgresStore) -> None:
        """Behind a pooler it is another client's next."""
        settings = "SELECT name, setting FROM pg_settings ORDER BY name"
        store.release("warm", claim())
        before = store._link.ask(lambda connection: connection.query(settings))
        store.acquire(claim(), "a")
        store.release("a", claim())
        assert store._link.ask(lambda connection: connection.query(settings)) == before
        locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
        assert store._link.ask(lambda connection: connection.query(locks)) == [["0"]]

    def test_who_looks_waits_for_nobody(self, server: PostgresServer, store: PostgresStore) -> None:
        """Nor does anybody wait for whoever counts a long line."""
        permit_of(store.acquire(claim(), "a"))
        with server.client() as client, client.transaction():
            client.execute("SELECT celery_semaphore.v1_lock(ARRAY['api'])")
            seen = store.snapshot("api")
        assert (seen.limit, seen.occupied) == (1, 1)

    @pytest.mark.parametrize("wanted", [claim(2), claim(2) + claim(2, of="disk")])
    def test_who_waits_for_others_waits_for_a_bounded_time(
        self, server: PostgresServer, open_at: OpenAt, wanted: list[Claim]
    ) -> None:
        """Another client was stopped inside; nothing of the call is left."""
        store = open_at(server.url, timeout=0.5)
        store.acquire(claim(2), "a")
        with server.client() as client, client.transaction():
            client.execute("SELECT celery_semaphore.v1_lock(ARRAY['api'])")
            with pytest.raises(StoreUnavailable):
                store.acquire(wanted, "b")
            wait_until(lambda: not server.run(WAITING), 5)
        permit_of(store.acquire(wanted, "c"))


def test_a_forked_child_has_connections_of_its_own(store: PostgresStore) -> None:
    store.acquire(claim(3), "parent")
    results = FORK.Queue()

    def child() -> None:
        store.close()  # not the parent's
        permit_of(store.acquire(claim(3), "child"))
        results.put(store.snapshot("api").occupied)

    process = FORK.Process(target=child)
    process.start()
    assert results.get(timeout=10) == 2
    process.join(10)
    assert process.exitcode == 0
    (idle,) = store._link._idle
    assert idle.query("SELECT 1") == [["1"]]
    permit_of(store.acquire(claim(3), "again"))
    assert store._link._idle == [idle]
