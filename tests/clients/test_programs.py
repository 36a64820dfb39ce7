"""Programs that are killed, paused or blocked, and their ends."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import pytest

from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from tests.conftest import StartServer
from tests.support.calling import SOON
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .caller import Caller, CallerError
from .conftest import OpenStore, StartCaller
from .test_node import run

pytestmark = pytest.mark.timeout(400)
CLAIMS = [Claim("api", None, 1)]
LEASE_S = 2.0
LEASE: dict[str, Any] = {"leaseMs": LEASE_S * 1000}
AT_ONCE_MS = 50


class TestPrograms:
    def test_one_that_is_killed(self, valkey: ValkeyServer, caller: Caller) -> None:
        """Its permit goes to the next one after a lease."""
        caller.open(valkey.url, limit=1, **LEASE)
        caller.acquire()
        api, since = Semaphore("api", 1, url=valkey.url, lease=LEASE_S), time.monotonic()
        caller.kill()
        api.acquire(timeout=SOON)
        assert LEASE_S / 2 < time.monotonic() - since < 3 * LEASE_S

    def test_one_that_waits_and_is_killed(
        self, valkey: ValkeyServer, start_caller: StartCaller, open_store: OpenStore
    ) -> None:
        """It stands before others, and is passed over."""
        store = open_store(valkey.url, lease=LEASE_S)
        store.acquire(CLAIMS, "python")
        caller, other = (start_caller().open(valkey.url, limit=1, **LEASE) for _ in range(2))
        first = caller.begin("acquire", **{"at": "api", "as": "a"})
        wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
        second = other.begin("acquire", **{"at": "api", "as": "a"})
        wait_until(lambda: store.snapshot("api").waiting == 2, SOON)
        caller.kill()
        assert isinstance(first.exception(SOON), ChildProcessError)
        store.release("python", CLAIMS)
        assert second.result(5 * LEASE_S)["token"]

    def test_one_that_is_paused_loses_its_permit(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        caller.open(valkey.url, limit=1, **LEASE)
        caller.acquire()
        caller.pause()
        permit = Semaphore("api", 1, url=valkey.url, lease=LEASE_S).acquire(timeout=SOON)
        caller.resume()
        said = wait_until(lambda: caller.ask("isLost", **{"as": "a"}), SOON)
        assert said.startswith("PermitLost: ")
        caller.release()
        (held,) = open_store(valkey.url).snapshot("api").holders
        assert held.holder == permit.holder

    def test_a_permit_is_renewed(self, valkey: ValkeyServer, caller: Caller) -> None:
        caller.open(valkey.url, limit=1, **LEASE)
        caller.acquire()
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", 1, url=valkey.url, lease=LEASE_S).acquire(timeout=2 * LEASE_S)
        assert caller.ask("isLost", **{"as": "a"}) is False

    def test_many_permits_are_renewed(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """More than one script takes, of two semaphores."""
        store = open_store(valkey.url, lease=LEASE_S)
        for at in ("api", "gpu"):
            caller.open(valkey.url, at, at=at, limit=150, **LEASE)
            for answer in [
                caller.begin("acquire", at=at, **{"as": f"{at} {n}"}) for n in range(120)
            ]:
                answer.result(SOON)
        time.sleep(1.5 * LEASE_S)
        assert [len(store.snapshot(at).holders) for at in ("api", "gpu")] == [120, 120]

    def test_one_broken_record_costs_no_other_permit(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        store = open_store(valkey.url, lease=LEASE_S)
        for at in ("gpu", "api"):  # the broken one first: a script stops there
            caller.open(valkey.url, at, at=at, limit=1, **LEASE).acquire(at=at, **{"as": at})
        with valkey.client() as client:
            client.set("{celery-semaphore}:gpu:holders", "broken")
        time.sleep(1.5 * LEASE_S)
        assert store.snapshot("api").holders

    def test_an_answer_that_is_read_late(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """Another one has the permit by then: it is not returned."""
        store = open_store(valkey.url, lease=LEASE_S)
        caller.open(valkey.url, limit=1, **LEASE)
        caller.acquire()
        caller.release()  # the server knows the scripts
        got = caller.begin("acquireAndBlock", at="api", **{"as": "a"}, ms=2.5 * LEASE_S * 1000)
        wait_until(lambda: store.snapshot("api").holders, SOON)
        asked = partial(store.acquire, CLAIMS, "python")
        permit = wait_until(lambda: isinstance(found := asked(), Permit) and found, SOON)

        def waits() -> int:
            store.renew([permit])
            return store.snapshot("api").waiting

        wait_until(waits, SOON, "it waits, as another one")
        assert not got.done()
        store.release("python", CLAIMS)
        assert got.result(SOON) == store.snapshot("api").holders[0].holder

    def test_one_that_was_blocked_keeps_its_connection(
        self, valkey: ValkeyServer, caller: Caller
    ) -> None:
        """Its calls are late, not the server's answers."""
        caller.open(valkey.url, limit=1)
        caller.ask("available", at="api")
        with valkey.client() as client:
            before = client.info("stats")["total_connections_received"]
            answer = caller.begin("available", at="api")
            caller.ask("block", ms=3000)
            assert answer.result(SOON) == 1
            assert client.info("stats")["total_connections_received"] == before


class TestBodies:
    @pytest.mark.parametrize("why", [None, "the body failed"])
    def test_its_end_releases(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore, why: str | None
    ) -> None:
        store = open_store(valkey.url)
        caller.open(valkey.url, limit=1)
        body = caller.begin("withPermit", at="api", **{"as": "a"})
        wait_until(lambda: caller.ask("isInside", **{"as": "a"}), SOON)
        caller.ask("endBody", **{"as": "a"}, why=why)
        if why:
            with pytest.raises(CallerError, match=why):
                body.result(SOON)
        else:
            assert body.result(SOON) == "a"
        assert store.snapshot("api").holders == ()

    def test_its_error_is_told_where_the_release_fails_too(
        self, valkey: ValkeyServer, caller: Caller
    ) -> None:
        caller.open(valkey.url, limit=1)
        body = caller.begin("withPermit", at="api", **{"as": "a"})
        wait_until(lambda: caller.ask("isInside", **{"as": "a"}), SOON)
        with valkey.client() as client:
            client.set("{celery-semaphore}:api:holders", "broken")
        caller.ask("endBody", **{"as": "a"}, why="the body failed")
        with pytest.raises(CallerError) as told:
            body.result(SOON)
        assert told.value.name == "Error"
        assert any("WRONGTYPE" in each for each in caller.ask("warnings"))

    def test_the_end_of_a_block_releases(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """`await using` calls it."""
        caller.open(valkey.url, limit=1)
        caller.acquire()
        caller.ask("dispose", **{"as": "a"})
        assert open_store(valkey.url).snapshot("api").holders == ()

    def test_extend_finds_that_it_was_taken_away(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """The body is told, too, before the next regular renewal."""
        caller.open(valkey.url, limit=1)
        holder = caller.acquire()["holder"]
        open_store(valkey.url).release(holder, CLAIMS)
        with pytest.raises(CallerError, match="the lease ended"):
            caller.ask("extend", at="api", **{"as": "a"})
        assert caller.ask("isLost", **{"as": "a"}).startswith("PermitLost: ")

    def test_a_body_is_told_in_time_that_nothing_renews_its_permit(
        self, start_valkey: StartServer, caller: Caller
    ) -> None:
        """Before its lease ends, for which the store and this process have different clocks."""
        server = start_valkey()
        caller.open(server.url, limit=1, **LEASE)
        caller.acquire()
        server.pause()
        since = time.monotonic()
        said = wait_until(lambda: caller.ask("isLost", **{"as": "a"}), SOON)
        assert "not renewed for" in said
        assert time.monotonic() - since < 2 * LEASE_S


class TestReleases:
    def test_one_is_repeated_until_the_store_takes_it(
        self, start_valkey: StartServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """For a second it is the replica of a server that is gone, and takes no writes."""
        server = start_valkey()
        store = open_store(server.url)
        caller.open(server.url, limit=1)
        caller.acquire()
        with server.client() as client:
            client.replicaof("127.0.0.1", 1)
            caller.release()
            time.sleep(1.2)  # two pauses between attempts
            client.replicaof("NO", "ONE")
        wait_until(lambda: store.snapshot("api").holders == (), SOON)

    def test_one_of_what_is_not_held_changes_nothing(
        self, valkey: ValkeyServer, caller: Caller
    ) -> None:
        """A second release is no call."""
        caller.open(valkey.url, limit=1)
        caller.acquire()
        caller.release()
        with valkey.client() as client:
            before = client.info("stats")["total_commands_processed"]
            caller.release()
            assert client.info("stats")["total_commands_processed"] - before < 3


class TestEnds:
    def test_a_process_with_nothing_but_an_acquire_lives_on(self, node: None) -> None:
        """Also while no connection is open."""
        code = """
            import { Semaphore } from "./src/index.js";
            const api = new Semaphore("api", { url: "redis://127.0.0.1:1/0", limit: 1 });
            await api.acquire({ timeoutMs: 2500 }).catch((error) => console.log(error.name));
        """
        said = run("node", "--no-warnings", "--input-type=module", "--eval", code)
        assert said == "SemaphoreTimeout\n"

    def test_a_close_releases(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """The last one; what waits is rejected, and the process ends."""
        store = open_store(valkey.url)
        for at in ("api", "other"):
            caller.open(valkey.url, at=at, limit=1)
        caller.acquire()
        waits = caller.begin("acquire", **{"at": "other", "as": "b"})
        wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
        caller.ask("close", at="other")
        with pytest.raises(CallerError, match="the semaphore was closed"):
            waits.result(SOON)
        wait_until(lambda: store.snapshot("api").waiting == 0, SOON)
        assert caller.ask("available", at="api") == 0
        caller.ask("close", at="api")
        assert store.snapshot("api").holders == ()
        assert caller.ends_by_itself(SOON) == 0

    @pytest.mark.parametrize("kept", ["", "d"])
    def test_a_close_waits_for_what_is_being_released(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore, kept: str
    ) -> None:
        """Its connection ends after that; who has a permit still is told, before others may have it."""
        caller.open(valkey.url, limit=4)
        for name in ["a", "b", "c", *kept]:
            caller.acquire(**{"as": name})
        assert caller.ask("closeWhileReleasing", at="api", **{"as": ["a", "b", "c"]})
        assert open_store(valkey.url).snapshot("api").holders == ()
        for name in kept:
            assert caller.ask("isLost", **{"as": name}).endswith("the semaphore was closed")

    def test_a_close_leaves_the_line(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """Also that of the last one, which ends the connection."""
        store = open_store(valkey.url)
        store.acquire(CLAIMS, "python")
        caller.open(valkey.url, limit=1)
        waits = caller.begin("acquire", **{"at": "api", "as": "a"})
        wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
        caller.ask("close", at="api")
        with pytest.raises(CallerError, match="the semaphore was closed"):
            waits.result(SOON)
        assert store.snapshot("api").waiting == 0
        assert caller.ends_by_itself(SOON) == 0

    def test_a_close_while_the_server_hangs_is_bounded(
        self, start_valkey: StartServer, caller: Caller
    ) -> None:
        server = start_valkey()
        caller.open(server.url, limit=1)
        caller.acquire()
        server.pause()
        since = time.monotonic()
        caller.ask("close", at="api")
        assert time.monotonic() - since < 8
        assert caller.ends_by_itself(SOON) == 0
