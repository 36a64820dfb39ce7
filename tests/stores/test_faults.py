"""Answers that are lost, servers that hang, restart or forget."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.errors import is_final
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

from .conftest import PARK, OpenAt, claim, permit_of, refusal_of
from .lost_answers import LostAnswers

StartServer = Callable[..., RedisServer]

FINAL = [  # the same call would fail for ever
    "user_script:1: attempt to concatenate a nil value script: 3c10, on @user_script:1.",
    "WRONGTYPE Operation against a key holding the wrong kind of value script: on @user_script:1.",
    "value is not a valid float script: 07c0, on @user_script:1.",
    "Error running script (call to f_07c0): @user_script:3: user_script:3: attempt to index a nil",
]
PASSING = [  # the server is not able to answer now
    "OOM command not allowed when used memory > 'maxmemory'. script: on @user_script:1.",
    "Error running script (call to f_07c0): @user_script:7: @user_script: 7: -OOM command not allowed",
    "NOREPLICAS Not enough good replicas to write. script: on @user_script:1.",
    "READONLY You can't write against a read only replica. script: on @user_script:1.",
    "MISCONF Errors writing to the AOF file: No space left script: on @user_script:1.",
    "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
    "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    "UNKILLABLE Sorry the script already executed write commands against the dataset.",
    "CLUSTERDOWN Hash slot not served",
    "TRYAGAIN Multiple keys request during rehashing of slot",
    "EXECABORT Transaction discarded because of previous errors.",
    "NOAUTH Authentication required.",
    "NOPERM this user has no permissions to access one of the keys used as arguments",
    "The user executing the script can't run this command or subcommand script: 3c, on @user_script:1.",
    "ACL failure in script: No permissions to access a channel script: on @user_script:1.",
    "Script killed by user with SCRIPT KILL. script: on @user_script:1.",
    "max number of clients reached",
    "unknown command 'EVALSHA', with args beginning with: ",
]


class TestLostAnswers(LostAnswers):
    @pytest.fixture
    def cut_off(self, proxy: Proxy, open_at: OpenAt) -> RedisStore:
        """A store whose answers may be lost; it has been used."""
        store = open_at(f"redis://127.0.0.1:{proxy.port}/0", timeout=0.5)
        store.release("warm", claim(of="warm"))
        return store

    def test_a_refusal_is_repeated(self, proxy: Proxy, cut_off: RedisStore) -> None:
        cut_off.acquire(claim(), "a")
        proxy.drop_answers()
        refusal = refusal_of(cut_off.acquire(claim(), "b", PARK))
        assert (proxy.answers_dropped, refusal.position) == (1, 0)
        assert cut_off.snapshot("api").waiting == 1

    def test_lost_twice_is_unavailable(self, proxy: Proxy, cut_off: RedisStore) -> None:
        proxy.drop_answers(2)
        with pytest.raises(StoreUnavailable):
            cut_off.acquire(claim(), "a")
        cut_off.release("a", claim())
        permit_of(cut_off.acquire(claim(), "b"))

    def test_a_server_that_hangs(self, proxy: Proxy, cut_off: RedisStore) -> None:
        proxy.hang()
        start = time.monotonic()
        with pytest.raises(StoreUnavailable, match=rf"\(127\.0\.0\.1:{proxy.port}\)"):
            cut_off.acquire(claim(), "a")
        assert time.monotonic() - start < 4 * 0.5
        proxy.restore()
        store_answers_again(cut_off)

    def test_an_interrupted_call_leaves_no_answer_behind(self, cut_off: RedisStore) -> None:
        """A time limit strikes between question and answer; the next call must get its own."""

        class Interrupt(BaseException):
            pass

        def interrupted(connection: Any) -> None:
            connection.send_command("ECHO", "not yours")
            raise Interrupt

        with pytest.raises(Interrupt):
            cut_off._link.ask(interrupted)
        permit_of(cut_off.acquire(claim(), "a"))


def store_answers_again(store: RedisStore) -> None:
    answer = store.acquire(claim(of="other"), "z")
    assert isinstance(answer, Permit)


class TestRefusals:
    """What the server would answer for ever is no outage; what its state or its operator causes is one."""

    def test_a_key_of_another_type(self, server: RedisServer, store: RedisStore) -> None:
        with server.client() as client:
            client.set("{celery-semaphore}:api:ledger", "of others")
        with pytest.raises(SemaphoreError, match=r"cannot take .* WRONGTYPE") as caught:
            store.acquire(claim(), "a")
        assert not isinstance(caught.value, StoreUnavailable)
        permit_of(store.acquire(claim(of="disk"), "b"))

    def test_one_of_many_renewals(self, server: RedisServer, store: RedisStore) -> None:
        """Each other one has its answer."""
        permits = [permit_of(store.acquire(claim(of=name), name)) for name in ("a", "b", "c")]
        with server.client() as client:
            client.set("{celery-semaphore}:b:ledger", "of others")
        try:
            renewals = store.renew(permits)
        except SemaphoreError:
            renewals = {}
        assert renewals == {"a": Renewal.OK, "c": Renewal.OK}

    def test_one_of_many_that_are_due(self, server: RedisServer, open_at: OpenAt) -> None:
        """What is handed on at the others is told."""
        store = open_at(server.url, lease=0.2)
        for name in ("a", "b", "c"):
            permit_of(store.acquire(claim(of=name), name))
            ticket = refusal_of(store.acquire(claim(of=name), f"{name}2", PARK)).ticket
            assert ticket
            store.attach(ticket, claim(of=name), name.encode())
        with server.client() as client:
            client.set("{celery-semaphore}:b:ledger", "of others")
        sent: list[bytes] = []

        def came() -> bool:
            sent.extend(grant.payload for grant in store.take(store.reap()))
            return len(sent) == 2

        wait_until(came, 5)
        assert sorted(sent) == [b"a", b"c"]

    def test_too_few_replicas(self, start_server: StartServer, open_at: OpenAt) -> None:
        store = open_at(start_server(min_replicas_to_write="1").url)
        with pytest.raises(StoreUnavailable, match="NOREPLICAS"):
            store.acquire(claim(), "a")

    def test_a_user_without_a_command(self, start_server: StartServer, open_at: OpenAt) -> None:
        server = start_server()
        with server.client() as client:
            client.acl_setuser(
                "worker", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-zadd"]
            )
        with pytest.raises(StoreUnavailable):
            open_at(server.url.replace("//", "//worker:any@")).acquire(claim(), "a")

    @pytest.mark.parametrize("reason", FINAL, ids=itertools.count())
    def test_final(self, reason: str) -> None:
        assert is_final(reason) is True

    @pytest.mark.parametrize("reason", PASSING, ids=itertools.count())
    def test_passing(self, reason: str) -> None:
        assert is_final(reason) is False


class TestRestarts:
    def test_without_its_data(self, start_server: StartServer, open_at: OpenAt) -> None:
        server = start_server()
        store, other = open_at(server.url, lease=3.0), open_at(server.url, lease=3.0)
        permit = permit_of(store.acquire(claim(), "a"))
        permit_of(other.acquire(claim(of="disk"), "x"))
        server.restart(keep_data=False)
        assert refusal_of(other.acquire(claim(), "b")).reason is Reason.RECOVERING
        assert store.renew([permit]) == {"a": Renewal.RESTORED}
        fresh = open_at(server.url, lease=3.0)
        assert refusal_of(fresh.acquire(claim(), "c")).reason is Reason.RECOVERING
        time.sleep(2.1)
        assert refusal_of(fresh.acquire(claim(), "d")).reason is Reason.SATURATED
        assert store.epoch == other.epoch == fresh.epoch or other.renew([]) == {}

    def test_with_its_data(self, start_server: StartServer, open_at: OpenAt) -> None:
        """What was written last may be missing, so the living come first all the same."""
        server = start_server(appendonly="yes", appendfsync="always")
        store = open_at(server.url, lease=3.0)
        permit = permit_of(store.acquire(claim(), "a"))
        before = store.epoch
        server.restart(keep_data=True)
        answer = refusal_of(open_at(server.url, lease=3.0).acquire(claim(2), "b"))
        assert answer.reason is Reason.RECOVERING
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert (store.epoch or 0) > (before or 0)

    def test_leases_do_not_end_while_the_server_is_away(
        self, start_server: StartServer, open_at: OpenAt
    ) -> None:
        """Nobody could renew; an overdue lease of one who is alive is renewed in the grace."""
        server = start_server(appendonly="yes", appendfsync="always")
        store = open_at(server.url, lease=1.0)
        permit = permit_of(store.acquire(claim(), "a"))
        server.kill()
        time.sleep(1.1)
        server.start()
        refused = refusal_of(open_at(server.url, lease=1.0).acquire(claim(), "b"))
        assert refused.reason is Reason.RECOVERING
        assert store.renew([permit]) == {"a": Renewal.OK}

    def test_a_process_that_starts_after_the_loss_waits_too(
        self, start_server: StartServer, open_at: OpenAt
    ) -> None:
        server = start_server()
        store = open_at(server.url, lease=3.0)
        permit_of(store.acquire(claim(2), "a"))
        server.restart(keep_data=False)
        fresh = open_at(server.url, lease=3.0)
        permit_of(fresh.acquire(claim(2), "b"))  # nobody told it
        store.renew([])
        assert refusal_of(store.acquire(claim(2), "c")).reason is Reason.RECOVERING
        assert refusal_of(fresh.acquire(claim(2), "d")).reason is Reason.RECOVERING
