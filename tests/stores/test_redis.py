"""What only a server of the Redis family can get wrong."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery_semaphore.core.claim import OtherClaims
from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.encoding import resource_claims
from celery_semaphore.stores.redis import RedisStore, scripts
from tests.support.proxy import Proxy
from tests.support.servers import RedisServer

from .conftest import PARK, OpenAt, claim, park, permit_of, refusal_of

HOLDERS, LEDGER = "{celery-semaphore}:api:holders", "{celery-semaphore}:api:ledger"

StartServer = Callable[..., RedisServer]


def commands(server: RedisServer) -> dict[str, int]:
    with server.client() as client:
        stats: Any = client.info("commandstats")
    return {name.removeprefix("cmdstat_"): found["calls"] for name, found in stats.items()}


def reset_stats(server: RedisServer) -> None:
    with server.client() as client:
        client.config_resetstat()


class TestRoundTrips:
    def test_one_for_each_call(self, server: RedisServer, store: RedisStore) -> None:
        store.release("warm", claim())
        store.acquire(claim(of="warm"), "warm")
        store.renew([permit_of(store.acquire(claim(of="warm"), "warm"))])
        reset_stats(server)
        permit = permit_of(store.acquire(claim(3) + claim(3, of="disk"), "a"))
        others = [permit_of(store.acquire(claim(3), holder)) for holder in "bc"]
        store.renew([permit, *others])
        store.release("a", permit.claims)
        seen = commands(server)
        assert seen["evalsha"] == 3 + 1 + 1
        assert not {"eval", "ping", "info|server", "script|load"} & set(seen)

    def test_renewals_are_sent_together(
        self, server: RedisServer, start_proxy: Callable[[int], Proxy], open_at: OpenAt
    ) -> None:
        proxy = start_proxy(server.port)
        store = open_at(f"redis://127.0.0.1:{proxy.port}/0")
        permits = [permit_of(store.acquire(claim(20), str(n))) for n in range(20)]
        store.renew(permits)
        before = proxy.requests
        assert set(store.renew(permits).values()) == {Renewal.OK}
        assert proxy.requests == before + 1

    def test_many_are_renewed_in_one_call(self, server: RedisServer, store: RedisStore) -> None:
        """What is plainly there needs three commands for each claim, and no more."""
        asked = [claim(9, of="api", weight=1 + n % 2) + claim(9, of=f"{n}") for n in range(4)]
        permits = [
            permit_of(store.acquire(wanted[n % 2 :], f"h{n}")) for n, wanted in enumerate(asked)
        ]
        store.renew(permits)
        reset_stats(server)
        assert set(store.renew(permits).values()) == {Renewal.OK}
        seen = commands(server)
        claims = 2 * 2 + 2 * 1
        assert (seen["evalsha"], seen["hget"], seen["zscore"], seen["zadd"]) == (1, *[claims] * 3)

    def test_to_put_one_back_costs_the_same_beside_many(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        """All holders of a key come at once, in the grace, and the server must not stand still for them."""

        def restore(count: int) -> float:
            store.epoch = None  # there is no grace for who knows of nothing before
            permits = [permit_of(store.acquire(claim(99), str(n))) for n in range(count)]
            with server.client() as client:
                client.flushall()
            reset_stats(server)
            assert set(store.renew(permits).values()) == {Renewal.RESTORED}
            seen = commands(server)
            with server.client() as client:
                client.flushall()
            return sum(seen.values()) / len(permits)

        assert restore(60) <= restore(20) + 1

    @pytest.mark.parametrize("dead", [0, 1])
    def test_many_are_renewed_after_a_restart_while_paused(
        self, server: RedisServer, store: RedisStore, dead: int
    ) -> None:
        """What lies at a resource is read once in a call, not for each permit: also beside one that is dead."""
        permits = [permit_of(store.acquire(claim(250), str(n))) for n in range(250)]
        store.set_limit(0, "api")
        with server.client() as client:
            for n in range(dead):  # the replica has another in its place
                ends = client.zscore(HOLDERS, str(n))
                client.hset(LEDGER, f"of:dead{n}", client.hget(LEDGER, f"of:{n}"))
                client.hdel(LEDGER, f"of:{n}")
                client.zrem(HOLDERS, str(n))
                client.zadd(HOLDERS, {f"dead{n}": ends})
            client.hset("{celery-semaphore}:epoch", "run_id", "another")
        reset_stats(server)
        became = list(store.renew(permits).values())
        assert became == [Renewal.RESTORED] * dead + [Renewal.OK] * (250 - dead)
        seen = commands(server)
        assert seen.get("hgetall", 0) <= (3 if dead else 0)  # three calls

    def test_a_script_is_told_once(
        self, start_proxy: Callable[[int], Proxy], start_valkey: StartServer, open_at: OpenAt
    ) -> None:
        """Also where many calls that need it are sent together."""
        server = start_valkey()
        proxy = start_proxy(server.port)
        store = open_at(f"redis://127.0.0.1:{proxy.port}/0")
        names = [f"of/{n}" for n in range(40)]
        seen = [each.resource for each in store.snapshots(names)]
        assert seen == names
        assert commands(server)["eval"] == 1
        before = proxy.requests
        assert len(list(store.snapshots(names))) == len(names)
        assert proxy.requests == before + 1

    def test_a_server_that_forgot_the_scripts(self, server: RedisServer, store: RedisStore) -> None:
        permits = [permit_of(store.acquire(claim(9), holder)) for holder in "abc"]
        with server.client() as client:
            client.script_flush()
        reset_stats(server)
        assert set(store.renew(permits).values()) == {Renewal.OK}
        assert commands(server)["eval"] == 1
        assert not store.release("a", claim(9)).outgoing
        reset_stats(server)
        store.renew(permits[1:])
        store.release("b", claim(9))
        assert "eval" not in commands(server)


class TestProcesses:
    def test_a_child_uses_no_connection_of_its_parent(self, store: RedisStore) -> None:
        store.acquire(claim(100), "parent")
        children = []
        for n in range(4):
            pid = os.fork()
            if not pid:  # pragma: no cover - in the child
                code = 1
                try:
                    for m in range(50):
                        permit = store.acquire(claim(100), f"{n}-{m}")
                        assert isinstance(permit, Permit)
                        assert permit.holder == f"{n}-{m}"
                        store.release(permit.holder, claim(100))
                    code = 0
                finally:
                    os._exit(code)
            children.append(pid)
        for m in range(50):
            permit = permit_of(store.acquire(claim(100), f"p-{m}"))
            assert store.snapshot("api").occupied >= 1
            store.release(permit.holder, claim(100))
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0, 0]

    def test_threads_get_their_own_answers(self, store: RedisStore) -> None:
        wrong: list[Any] = []

        def run(n: int) -> None:
            for m in range(50):
                permit = store.acquire(claim(100), f"{n}-{m}")
                if not isinstance(permit, Permit) or permit.holder != f"{n}-{m}":
                    wrong.append(permit)
                store.release(f"{n}-{m}", claim(100))

        threads = [threading.Thread(target=run, args=[n]) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert store.snapshot("api").occupied == 0


class TestKeys:
    def test_nothing_is_left_when_idle(self, server: RedisServer, open_at: OpenAt) -> None:
        store = open_at(server.url, lease=0.1)
        both = claim(2) + claim(2, of="disk", weight=2)
        store.acquire(both, "a")
        ticket = refusal_of(store.acquire(both, "b", PARK)).ticket
        assert ticket
        store.attach(ticket, both, b"b", name="b", ends_in=100.0)
        refusal_of(store.acquire(both, "c", Wait(Kind.REQUEUE)))
        store.release("c", both)
        (grant,) = store.take(store.release("a", both).outgoing)
        message = MessageId("b", "b.1", remember_for=0.5)
        permit_of(store.acquire(both, "b2", Wait(Kind.PARK, ticket=grant.ticket), message))
        store.release("b2", both)
        ran = MessageId("d", "d.1", remember_for=0.5)
        permit_of(store.acquire(both, "d", None, ran))
        store.release("d", both, ran)
        refusal_of(store.acquire(claim(0, of="paused"), "x"))
        permit_of(store.acquire(claim(of="killed"), "y"))
        refusal_of(store.acquire(claim(of="killed"), "z", Wait(Kind.REQUEUE, longest=0.1)))
        time.sleep(0.5)
        store.reap()  # it ends a silence: "y" has time to renew
        time.sleep(0.1)
        store.reap()
        time.sleep(1.2)
        with server.client() as client:
            left: Any = client.keys()
            expires = client.pttl("{celery-semaphore}:processes")
        assert set(left) == {b"{celery-semaphore}:epoch", b"{celery-semaphore}:processes"}
        assert expires > 0

    def test_a_message_that_came_again_leaves_no_mark(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        """Release one as ended, and one as interrupted."""
        for task in ("x:0:0", "y:0:0"):
            permit_of(store.acquire(claim(2), f"{task[0]}:1", None, MessageId(task)))
            again = MessageId(task, redelivered=True)
            answer = refusal_of(store.acquire(claim(2), f"{task[0]}:2", None, again))
            assert answer.reason is Reason.RUNNING
        store.release("x:1", claim(2), MessageId("x:0:0"))
        with server.client() as client:
            kept = client.hkeys(LEDGER)
            assert b"again:y:1" in kept
            assert b"again:x:1" not in kept
        store.release("y:1", claim(2))
        with server.client() as client:
            assert b"again:y:1" not in client.hkeys(LEDGER)

    def test_keys_in_use_carry_no_expiry(self, server: RedisServer, store: RedisStore) -> None:
        """Or volatile-* eviction would take permits."""
        store.acquire(claim(2, weight=2), "a")
        store.release("a", claim(2))
        store.acquire(claim(2, weight=2), "b")
        park(store, "c")
        store.acquire(claim(2), "d", Wait(Kind.REQUEUE))
        store.set_limit(2, "api")
        with server.client() as client:
            names: Any = client.keys()
            expiring = {name for name in names if client.ttl(name) != -1}
        assert expiring == {b"{celery-semaphore}:api:released"}

    def test_who_was_put_aside_leaves_nothing(self, server: RedisServer, store: RedisStore) -> None:
        heavy = claim(3, weight=3)
        store.acquire(heavy, "a")
        ticket = refusal_of(store.acquire(heavy, "b", PARK)).ticket
        assert ticket
        store.attach(ticket, heavy, b"b")
        store.set_limit(2, "api")
        store.release("a", heavy)
        aside = "{celery-semaphore}:api:aside"
        with server.client() as client:
            assert client.zcard(aside) == 1
            store.release(ticket, heavy)
            assert not client.exists(aside)

    def test_who_releases_leaves_in_use_what_others_hold(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        for holder in ("a", "b"):
            permit_of(store.acquire(claim(2), holder))
        store.release("a", claim(2))
        with server.client() as client:
            assert client.ttl("{celery-semaphore}:api:ledger") == -1
            assert client.zscore("{celery-semaphore}:index", "api") is not None

    def test_the_prefix_keeps_stores_apart(self, server: RedisServer, open_at: OpenAt) -> None:
        one, other = open_at(server.url, prefix="one"), open_at(server.url, prefix="other")
        permit_of(one.acquire(claim(), "a"))
        permit_of(other.acquire(claim(), "b"))
        with server.client() as client:
            names: Any = client.keys()
        assert all(name.startswith((b"{one}:", b"{other}:")) for name in names)

    def test_released_holders_are_forgotten_by_and_by(
        self, server: RedisServer, open_at: OpenAt
    ) -> None:
        store = open_at(server.url, lease=0.05)
        for n in range(300):
            store.acquire(claim(), str(n))
            store.release(str(n), claim())
            time.sleep(0.001)
        with server.client() as client:
            kept: Any = client.zcard("{celery-semaphore}:api:released")
        assert kept < 150


class TestPartialLoss:
    """One claim's keys are gone: somebody deleted them, or an eviction policy was changed."""

    BOTH = claim() + claim(of="disk")

    @pytest.fixture
    def permit(self, server: RedisServer, store: RedisStore) -> Permit:
        permit = permit_of(store.acquire(self.BOTH, "a"))
        with server.client() as client:
            names: Any = client.keys("*:disk:*")
            client.delete(*names)
        return permit

    def test_a_renewal_ends_the_rest(self, store: RedisStore, permit: Permit) -> None:
        assert store.renew([permit]) == {"a": Renewal.LOST}
        assert store.snapshot("api").occupied == 0
        assert list(store.resources()) == []
        assert refusal_of(store.acquire(self.BOTH, "a")).reason is Reason.RELEASED

    def test_an_acquire_ends_the_rest(self, store: RedisStore, permit: Permit) -> None:
        assert refusal_of(store.acquire(self.BOTH, "a")).reason is Reason.RELEASED
        assert store.snapshot("api").occupied == 0
        assert store.renew([permit]) == {"a": Renewal.LOST}

    def test_a_lost_index_is_made_again(
        self, server: RedisServer, store: RedisStore, permit: Permit
    ) -> None:
        """Or nothing would ever be looked at there."""
        other = permit_of(store.acquire(claim(of="other"), "b"))
        with server.client() as client:
            client.delete("{celery-semaphore}:index")
        assert store.renew([other]) == {"b": Renewal.OK}
        assert list(store.resources()) == ["other"]

    def test_in_the_grace_it_is_restored(
        self, server: RedisServer, store: RedisStore, permit: Permit
    ) -> None:
        with server.client() as client:
            client.delete("{celery-semaphore}:epoch")
        assert store.renew([permit]) == {"a": Renewal.RESTORED}
        assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 1

    def test_it_is_restored_in_its_own_place(self, server: RedisServer, store: RedisStore) -> None:
        """Above a lowered limit, where it was renewed before the rest of it was lost."""
        permit_of(store.acquire(claim(2), "dead"))
        permit = permit_of(store.acquire(claim(2) + claim(of="disk"), "a"))
        with server.client() as client:
            names: Any = client.keys("*:api:*")
            kept: Any = {name: client.dump(name) for name in names}
            store.release("dead", claim(2))
            other = permit_of(store.acquire(claim(2), "b"))
            for name, dump in kept.items():
                client.restore(name, 0, dump, replace=True)
            client.delete("{celery-semaphore}:epoch")
            store.set_limit(1, "api")
            assert store.renew([permit]) == {"a": Renewal.OK}
            assert store.renew([other]) == {"b": Renewal.RESTORED}
            client.delete(*client.keys("*:disk:*"))
        assert store.renew([permit]) == {"a": Renewal.RESTORED}

    def test_operators_limits_outlive_the_memory(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        store.set_limit(7, "api")
        with server.client() as client:
            client.delete("{celery-semaphore}:epoch")
        assert store.snapshot("api").limit == 7


class TestFormat:
    RECORD = "{celery-semaphore}:epoch"

    def test_a_new_record_has_it(self, server: RedisServer, store: RedisStore) -> None:
        store.reap()
        with server.client() as client:
            assert client.hget(self.RECORD, "format") == str(FORMAT).encode()

    def test_a_restart_keeps_the_one_before(self, server: RedisServer, store: RedisStore) -> None:
        """Workers that read no other may still be there: an operator's command goes over to the newer one."""
        permit_of(store.acquire(claim(), "a"))
        with server.client() as client:
            client.hset(self.RECORD, mapping={"format": FORMAT - 1, "run_id": "another"})
            assert refusal_of(store.acquire(claim(), "b")).reason is Reason.RECOVERING
            assert client.hget(self.RECORD, "format") == str(FORMAT - 1).encode()

    @pytest.mark.parametrize("found", [None, "", "none"])
    def test_none_is_the_first(
        self, server: RedisServer, store: RedisStore, found: str | None
    ) -> None:
        permit = permit_of(store.acquire(claim(), "a"))
        with server.client() as client:
            client.hdel(self.RECORD, "format")
            if found is not None:
                client.hset(self.RECORD, "format", found)
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert refusal_of(store.acquire(claim(), "b")).reason is Reason.SATURATED
        assert store.check() == []

    @pytest.mark.parametrize("restarted", [False, True])
    def test_a_newer_record_is_not_written(
        self, server: RedisServer, store: RedisStore, *, restarted: bool
    ) -> None:
        permit = permit_of(store.acquire(claim(), "a"))
        with server.client() as client:
            client.hset(self.RECORD, mapping={"format": FORMAT + 1, "later": "on"})
            if restarted:
                client.hset(self.RECORD, "run_id", "another")
            before = client.hgetall(self.RECORD)
            for call in (
                lambda: store.acquire(claim(), "b"),
                lambda: store.renew([permit]),
                lambda: store.release("a", claim()),
                store.reap,
            ):
                with pytest.raises(StoreUnavailable):
                    call()
            assert client.hgetall(self.RECORD) == before


class TestPauses:
    @pytest.mark.parametrize("how", ["a look", "a decision"])
    def test_no_call_looks_for_one_that_has_ended(
        self, server: RedisServer, store: RedisStore, how: str
    ) -> None:
        """O4: each acquire would read a hash more, at all semaphores."""
        store.acquire(claim(), "a")
        park(store, "b")
        store.pause("api", 0.2)
        assert store.decisions()["api"].pause
        time.sleep(0.3)
        if how == "a look":
            store.reap()
        else:
            store.set_limit(None, "disk")
        with server.client() as client:
            assert client.hget("{celery-semaphore}:epoch", "limited") == b"0"
            assert not client.exists("{celery-semaphore}:limits")

    def test_to_ask_for_decisions_begins_no_epoch(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        assert store.decisions() == {}
        with server.client() as client:
            assert client.keys() == []


class TestLedger:
    def test_none_stays_of_a_call_that_was_sent_to_other_claims(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        """A19, after A4 has noted its limit: nobody may ever use that key."""
        store.acquire(claim(), "a")
        ticket = refusal_of(store.acquire(claim(), "b", PARK)).ticket
        with server.client() as client:
            before = set(client.keys())
            with pytest.raises(OtherClaims):
                store.acquire(claim(of="new"), "b2", Wait(Kind.PARK, ticket))
            left = set(client.keys()) - before
            assert [key for key in left if client.pttl(key) < 0] == []
            assert left

    def test_nothing_is_left_in_it_of_grants_that_ended(
        self, server: RedisServer, store: RedisStore
    ) -> None:
        """A resource that is always in use keeps its ledger for ever."""

        def fields() -> set[bytes]:
            with server.client() as client:
                found: Any = client.hkeys("{celery-semaphore}:api:ledger")
            return {name.partition(b":")[0] for name in found}

        store.acquire(claim(), "a")
        ticket = refusal_of(store.acquire(claim(), "b", PARK)).ticket
        assert ticket
        store.attach(ticket, claim(), b"b")
        store.sent(store.take(store.release("a", claim()).outgoing))
        before = fields()
        assert b"for" in before
        permit_of(store.acquire(claim(), "b2", Wait(Kind.PARK, ticket=ticket)))
        assert fields() == before - {b"for"}


class TestRunId:
    RECORD = "{celery-semaphore}:epoch"

    @pytest.fixture
    def without_info(self, server: RedisServer, open_at: OpenAt) -> Iterator[RedisStore]:
        """One whose user may not ask which run of the server this is."""
        with server.client() as client:
            client.execute_command("ACL SETUSER blind on >secret ~* &* +@all -info")
            yield open_at(server.url.replace("://", "://blind:secret@"))
            client.execute_command("ACL DELUSER blind")

    def test_one_that_may_not_ask_for_it_does_not_blind_the_others(
        self, server: RedisServer, store: RedisStore, without_info: RedisStore
    ) -> None:
        permits = [permit_of(without_info.acquire(claim(9), "a"))]
        with server.client() as client:
            assert client.hget(self.RECORD, "run_id") == b""
            permits.append(permit_of(store.acquire(claim(9), "b")))
            run_id: Any = client.info("server")["run_id"]
            assert client.hget(self.RECORD, "run_id") == run_id.encode()
        permits.append(permit_of(without_info.acquire(claim(9), "c")))
        assert len({permit.epoch for permit in permits}) == 1
        with server.client() as client:
            assert client.hget(self.RECORD, "run_id") == run_id.encode()


class TestHandOnInSeveralCalls:
    def test_who_dies_between_them_is_made_up_for(self, store: RedisStore) -> None:
        both = claim() + claim(of="disk")
        store.acquire(claim(), "a")
        ticket = refusal_of(store.acquire(both, "b", PARK)).ticket
        assert ticket
        store.attach(ticket, both, b"b")
        answer = store._runner.run(scripts.RELEASE, resource_claims(claim()), ["a"])
        assert sorted(answer[2]) == [b"api", b"disk"]
        assert refusal_of(store.acquire(claim(), "newcomer")).reason is Reason.SATURATED
        assert [grant.payload for grant in store.take(store.reap())] == [b"b"]

    def test_what_was_looked_at_needs_no_look(self, server: RedisServer, open_at: OpenAt) -> None:
        store = open_at(server.url, lease=0.2)
        permits = [permit_of(store.acquire(claim(9, of=name), "a")) for name in ("x", "y")]
        time.sleep(0.15)
        store.renew(permits)
        time.sleep(0.1)
        store.reap()
        reset_stats(server)
        store.reap()
        assert commands(server)["evalsha"] == 1


@pytest.mark.slow
class TestManyWaiters:
    def test_a_long_line_costs_no_more(self, valkey: RedisServer, open_at: OpenAt) -> None:
        store = open_at(
            valkey.url, lease=600.0, timeout=30.0
        )  # the holder keeps its permit on a slow machine too
        lines = (1_000, 100_000)
        for many in lines:
            store.acquire(claim(of=f"line{many}"), "holder")
            fill(valkey, store, f"line{many}", many)
        # The least of three, in turns: other programs make the server slower, and nothing makes it faster.
        rounds = [{many: cost(valkey, store, f"line{many}") for many in lines} for _ in range(3)]
        figures = {many: min(each[many] for each in rounds) for many in lines}
        assert figures[100_000] < 2 * figures[1_000], rounds  # the tree is deeper, no more


def fill(server: RedisServer, store: RedisStore, name: str, many: int) -> None:
    """As many waiters as that, all like one that came through the front door."""
    refusal_of(store.acquire(claim(of=name), f"model of {name}", Wait(Kind.REQUEUE)))
    keys = [f"{{celery-semaphore}}:{name}:{part}" for part in ("transit", "due", "tickets")]
    script = """
        local model = redis.call("ZRANGE", KEYS[1], 0, 0)[1]
        local info, due = redis.call("HGET", KEYS[3], model:sub(22)), redis.call("ZSCORE", KEYS[2], model:sub(22))
        for n = ARGV[1], ARGV[2] do
            local rank = string.format("255.%016d", 1700000000000000 + n)
            redis.call("ZADD", KEYS[1], 0, rank .. ".w" .. n)
            redis.call("ZADD", KEYS[2], due + n, "w" .. n)
            redis.call("HSET", KEYS[3], "w" .. n, rank .. info:sub(21))
        end"""
    with server.client() as client:
        for start in range(0, many, 10_000):
            client.eval(script, 3, *keys, str(start + 1), str(min(many, start + 10_000)))


def cost(server: RedisServer, store: RedisStore, name: str) -> float:
    """The server's microseconds for one acquire that is refused and one release."""
    reset_stats(server)
    for n in range(300):
        refusal_of(store.acquire(claim(of=name), f"x{n}", Wait(Kind.REQUEUE)))
        store.release(f"x{n}", claim(of=name))
    with server.client() as client:
        stats: Any = client.info("commandstats")
    found: float = stats["cmdstat_evalsha"]["usec_per_call"]
    return found
