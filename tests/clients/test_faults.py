"""What goes wrong: killed and paused programs, servers that hang or forget, aborted acquires, lost connections."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.redis import RedisStore
from tests.conftest import StartServer
from tests.support.calling import SOON
from tests.support.counter import Counter
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

from .caller import Caller, CallerError
from .conftest import OpenStore

pytestmark = pytest.mark.timeout(400)
CLAIMS = [Claim("api", None, 1)]
LEASE_S = 2.0
LEASE: dict[str, Any] = {"leaseMs": LEASE_S * 1000}
AT_ONCE_MS = 50


def soon_nothing_is_left(store: RedisStore, timeout: float = SOON) -> None:
    def left() -> list[object]:
        seen = store.snapshot("api")
        return [*seen.holders, *[seen.waiting] * (seen.waiting > 0)]

    wait_until(lambda: not left(), timeout, "nothing is left")


class TestAborts:
    def test_while_the_server_hangs(
        self, start_valkey: StartServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """They reject at once, and leave nothing when it goes on."""
        server = start_valkey()
        store = open_store(server.url)
        caller.open(server.url, limit=5)
        caller.ask("available", at="api")
        fastest = 1000.0
        for _ in range(3):  # the machine may be busy, once or twice
            server.pause()
            found = caller.ask("abortMany", at="api", many=50, afterMs=300)
            assert found["rejected"] == 50
            fastest = min(fastest, found["ms"])
            server.resume()
            soon_nothing_is_left(store)
        assert fastest < AT_ONCE_MS
        assert not [each for each in caller.ask("warnings") if "listeners" in each]

    def test_while_they_stand_in_line(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        store = open_store(valkey.url)
        store.acquire(CLAIMS, "python")
        caller.open(valkey.url, limit=1)
        waits = caller.begin("acquire", **{"at": "api", "as": "a"})
        wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
        caller.ask("abort", **{"as": "a"})
        with pytest.raises(CallerError, match=r"^Error: aborted by the test"):
            waits.result(SOON)
        wait_until(lambda: store.snapshot("api").waiting == 0, SOON)

    def test_at_random_moments(
        self, valkey: ValkeyServer, caller: Caller, counter: Counter, open_store: OpenStore
    ) -> None:
        """Every other one; all others come to their end."""
        caller.open(valkey.url, limit=5)
        found = caller.ask("bodies", at="api", many=400, ms=5, abortMs=250)
        assert found["done"] >= 200
        assert all("TimeoutError" in error for error in found["errors"])
        soon_nothing_is_left(open_store(valkey.url))
        stats = counter.stats("api")
        assert (stats["inside"], stats["completed"]) == (0, found["done"])
        assert stats["max_inside"] <= 5


class TestServers:
    def test_connections_that_are_killed(
        self, valkey: ValkeyServer, caller: Caller, counter: Counter, open_store: OpenStore
    ) -> None:
        caller.open(valkey.url, limit=5)
        over, kills = threading.Event(), list[int]()

        def kill() -> None:
            with valkey.client() as client:
                while not over.wait(0.1):
                    kills.append(client.execute_command("CLIENT", "KILL", "SKIPME", "yes"))

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            assert caller.ask("bodies", at="api", many=300, ms=5) == {"done": 300, "errors": []}
        finally:
            over.set()
            killer.join()
        assert sum(kills) > 1
        soon_nothing_is_left(open_store(valkey.url))
        stats = counter.stats("api")
        assert (stats["completed"], stats["max_inside"]) == (300, 5)

    @pytest.mark.parametrize("keeps", [False, True], ids=["forgets", "keeps its data"])
    def test_one_that_restarts(
        self, start_valkey: StartServer, caller: Caller, open_store: OpenStore, *, keeps: bool
    ) -> None:
        """The permits are there again before any other is admitted."""
        server = start_valkey(appendonly="yes", appendfsync="always")
        store = open_store(server.url, lease=LEASE_S)
        caller.open(server.url, limit=2, **LEASE)
        tokens = [caller.acquire(**{"as": name})["token"] for name in ("a", "b")]
        store.snapshot("api")  # it knows the epoch, too
        server.restart(keep_data=keeps)
        until = time.monotonic() + 2 * LEASE_S
        while time.monotonic() < until:
            assert not isinstance(store.acquire([Claim("api", None, 2)], "python"), Permit)
            time.sleep(0.05)
        assert [held["token"] for held in caller.ask("holders", at="api")] == tokens
        assert [caller.ask("isLost", **{"as": name}) for name in ("a", "b")] == [False, False]
        caller.release()
        assert isinstance(store.acquire([Claim("api", None, 2)], "later"), Permit)

    def test_a_replica_that_takes_over_its_address(
        self,
        start_valkey: StartServer,
        start_proxy: Callable[[int], Proxy],
        caller: Caller,
        open_store: OpenStore,
    ) -> None:
        """The name of a server leads to another one; what it holds is not given to others."""
        server, replica = start_valkey(), start_valkey()
        proxy = start_proxy(server.port)
        caller.open(f"redis://127.0.0.1:{proxy.port}/0", limit=1, **LEASE)
        token = caller.acquire()["token"]
        with replica.client() as client:
            client.replicaof("127.0.0.1", server.port)
            wait_until(lambda: client.zcard("{celery-semaphore}:api:holders"), SOON)
            client.replicaof("NO", "ONE")
        proxy.target_port = replica.port
        proxy.drop()
        store = open_store(replica.url, lease=LEASE_S)
        until = time.monotonic() + 2 * LEASE_S
        while time.monotonic() < until:
            assert not isinstance(store.acquire(CLAIMS, "python"), Permit)
            time.sleep(0.05)
        assert [held["token"] for held in caller.ask("holders", at="api")] == [token]
        assert caller.ask("isLost", **{"as": "a"}) is False
        caller.release()
        assert isinstance(store.acquire(CLAIMS, "later"), Permit)

    def test_one_that_forgets_those_that_wait(
        self, start_valkey: StartServer, caller: Caller
    ) -> None:
        """They are in line again, without a word of another caller."""
        server = start_valkey()
        caller.open(server.url, limit=1, **LEASE)
        caller.acquire()
        waits = caller.begin("acquire", **{"at": "api", "as": "b"})
        api = Semaphore("api", 1, url=server.url, lease=LEASE_S)
        wait_until(lambda: api._seen().waiting == 1, SOON)
        server.restart(keep_data=False)
        wait_until(lambda: api._seen().waiting == 1, SOON)
        caller.release()
        assert waits.result(SOON)["token"]

    def test_one_that_hangs(self, start_valkey: StartServer, caller: Caller) -> None:
        """A call is bounded; a permit that is not renewed for most of a lease counts as lost."""
        server = start_valkey()
        caller.open(server.url, limit=1, **LEASE)
        caller.acquire()
        server.pause()
        since = time.monotonic()
        with pytest.raises(CallerError, match="StoreUnavailable: The store did not answer"):
            caller.ask("available", at="api")
        assert 2 < time.monotonic() - since < 6
        said = wait_until(lambda: caller.ask("isLost", **{"as": "a"}), SOON)
        assert "not renewed for" in said
        server.resume()
        wait_until(lambda: caller.begin("available", at="api").exception(SOON) is None, SOON)

    def test_a_release_while_it_hangs(
        self, start_valkey: StartServer, caller: Caller, open_store: OpenStore
    ) -> None:
        """It resolves, and is repeated in the background."""
        server = start_valkey()
        store = open_store(server.url)
        caller.open(server.url, limit=1)
        caller.acquire()
        server.pause()
        caller.release()
        server.resume()
        soon_nothing_is_left(store)
