"""A Redis Cluster as a store: where it is entered, and where its calls go."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest
import redis

from celery_semaphore.core.permit import Reason, Renewal
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.connection import exchanged
from celery_semaphore.stores.redis.health import examine
from tests.conftest import need
from tests.support.cluster import SLOT, ClusterServer, Node, ValkeyNode
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .conftest import claim, permit_of, refusal_of

Open = Callable[..., RedisStore]
NAME = "under-test"  # of this store's connections


@pytest.fixture
def open_store(cluster: ClusterServer) -> Iterator[Open]:
    stores: list[Any] = []

    def open_store(
        url: str = cluster.url, *, timeout: float = 5.0, lease: float = 3.0, **options: Any
    ) -> Any:
        given = StoreOptions(
            timeout=timeout, lease=lease, transport_options=options | {"client_name": NAME}
        )
        stores.append(store_from_url(url, given))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def answers_of(node: Node, error: str) -> int:
    """How many calls of clients this node has refused with this error."""
    stats = node.info("INFO", "errorstats").get(f"errorstat_{error}", "0")
    return int("".join(digit for digit in stats if digit.isdigit()))


def questions(cluster: ClusterServer) -> int:
    """How often nodes were asked for the others."""
    stats = [node.ask("INFO", "commandstats") for node in cluster.nodes]
    return sum(each.get("cmdstat_cluster|slots", {}).get("calls", 0) for each in stats)


def set_on_all(cluster: ClusterServer, **settings: str) -> None:
    for node in cluster.nodes:
        for name, value in settings.items():
            node.ask("CONFIG SET", name.replace("_", "-"), value)


class TestEntrance:
    @pytest.mark.parametrize(
        "form",
        [
            "redis+cluster://{0};{1};{2}",
            "valkey+cluster://{0},{1}/0",
            "redis+cluster://{0};redis+cluster://{1}/0",
            "redis+cluster://{0}",
            "redis+cluster://127.0.0.1:1;{0}",  # the first one is away
            "redis://{0}",
            "redis://{1}/0",
            "redis://{2}",
            "redis://{3}",  # a replica
        ],
    )
    def test_any_node_leads_to_the_owner(
        self, cluster: ClusterServer, open_store: Open, form: str
    ) -> None:
        places = [f"127.0.0.1:{cluster.nodes[n].port}" for n in (0, 1, 2, 3)]
        store = open_store(form.format(*places))
        assert store.check() == []
        permit_of(store.acquire(claim(), "a"))
        with cluster.client() as client:
            assert client.exists("{celery-semaphore}:api:holders")

    def test_a_single_server_is_no_cluster(self, valkey: ValkeyServer, open_store: Open) -> None:
        store = open_store(f"redis+cluster://127.0.0.1:{valkey.port}")
        permit_of(store.acquire(claim(), "a"))

    def test_a_single_server_is_asked_for_no_nodes(
        self, valkey: ValkeyServer, open_store: Open
    ) -> None:
        permit_of(open_store(valkey.url).acquire(claim(), "a"))
        with valkey.client() as client:
            stats: Any = client.info("commandstats")
        assert not [name for name in stats if "cluster" in name]

    def test_another_database(self, cluster: ClusterServer, open_store: Open) -> None:
        with pytest.raises(ConfigurationError, match="database"):
            open_store(cluster.owner().database(1)).check()
        with pytest.raises(ConfigurationError, match="database 0 only"):
            open_store(f"{cluster.url}/1")

    def test_no_node_answers(self, open_store: Open) -> None:
        store = open_store("redis+cluster://:secret@127.0.0.1:1;127.0.0.1:2", timeout=1.0)
        with pytest.raises(StoreUnavailable, match=r"127\.0\.0\.1:1 of a Redis Cluster") as caught:
            store.acquire(claim(), "a")
        assert "secret" not in str(caught.value)


class TestAnnouncedAddresses:
    @pytest.fixture(autouse=True)
    def announced_as_before(self, cluster: ClusterServer) -> Iterator[None]:
        yield
        set_on_all(cluster, cluster_preferred_endpoint_type="ip", cluster_announce_hostname="")

    def test_no_host_is_the_same_host(self, cluster: ClusterServer, open_store: Open) -> None:
        set_on_all(cluster, cluster_preferred_endpoint_type="unknown-endpoint")
        store = open_store(f"redis://localhost:{cluster.another().port}")
        permit_of(store.acquire(claim(), "a"))
        assert store._link._finder.place == ("localhost", cluster.owner().port)

    def test_a_host_name(self, cluster: ClusterServer, open_store: Open) -> None:
        self.announce(cluster, "localhost")
        store = open_store(f"redis://127.0.0.1:{cluster.another().port}")
        permit_of(store.acquire(claim(), "a"))
        assert store._link._finder.place == ("localhost", cluster.owner().port)

    def announce(self, cluster: ClusterServer, name: str) -> None:
        set_on_all(
            cluster,
            cluster_preferred_endpoint_type="hostname",
            cluster_announce_hostname=name,
        )
        seen = cluster.another()
        # The others learn a node's name by gossip.
        wait_until(lambda: str(seen.ask("CLUSTER SLOTS")).count(name) >= 6, 10, "all names")

    def test_an_address_that_leads_nowhere_from_here(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        self.announce(cluster, "inside.invalid")
        url = f"redis+cluster://127.0.0.1:{cluster.another().port}"
        with pytest.raises(StoreUnavailable, match=r"inside\.invalid.*address_remap"):
            open_store(url, timeout=1.0).acquire(claim(), "a")
        store = open_store(url, address_remap=lambda address: ("127.0.0.1", address[1]))
        permit_of(store.acquire(claim(), "a"))
        assert {host for host, _ in store._link._finder.nodes} == {"127.0.0.1"}

    def test_a_remap_that_fails(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store(address_remap=lambda address: {}[address])
        with pytest.raises(StoreUnavailable, match=r"address_remap raised KeyError.*127\.0\.0\.1"):
            store.acquire(claim(), "a")

    def test_a_node_that_sends_on_to_itself(self, cluster: ClusterServer, open_store: Open) -> None:
        wrong = cluster.another()
        store = open_store(
            f"redis://127.0.0.1:{wrong.port}", address_remap=lambda _: ("127.0.0.1", wrong.port)
        )
        before, since = answers_of(wrong, "MOVED"), time.monotonic()
        with pytest.raises(StoreUnavailable, match=r"MOVED.*address_remap"):
            store.acquire(claim(), "a")
        assert answers_of(wrong, "MOVED") - before == 1 + 4
        assert time.monotonic() - since < 5


class TestMoves:
    def test_a_failover_begins_an_epoch(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store()
        permit = permit_of(store.acquire(claim(2), "a"))
        before = store.epoch or 0
        cluster.fail_over()
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING
        assert store.renew([permit])["a"] in {Renewal.OK, Renewal.RESTORED}
        assert (store.epoch or 0) > before

    def test_no_connection_to_the_former_owner_is_kept(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store()
        former = cluster.owner()
        in_parallel(lambda: store.snapshot("api"))
        assert connections(former) > 1
        cluster.fail_over()
        store.snapshot("api")
        wait_until(lambda: connections(former) == 0, 5, "all are closed")
        store.snapshot("api")
        assert connections(cluster.owner()) == 1

    def test_a_call_that_is_under_way_keeps_no_connection_to_the_former_owner(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store()
        store.snapshot("api")
        former = cluster.owner()

        def exchange(connection: Any) -> None:
            """Answered by the former owner, and returned when another thread has gone on."""
            if connection.port == former.port:
                cluster.fail_over()
                in_parallel(lambda: store.snapshot("api"), threads=1)

        store._link.ask(exchange)
        assert connections(former) == 0

    def test_a_batch_that_is_cut_in_half_is_repeated_as_a_whole(
        self, cluster: ClusterServer, open_store: Open, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        store = open_store()
        names = [f"of{n}" for n in range(20)]
        for name in names:
            permit_of(store.acquire(claim(of=name), name))
        halves = list[int]()

        def cut(connection: Any, commands: list[bytes]) -> list[Any]:
            if halves:
                return exchanged(connection, commands)
            found = exchanged(connection, commands[:10])
            cluster.fail_over()
            found += exchanged(connection, commands[10:])
            halves.extend(isinstance(each, redis.exceptions.MovedError) for each in found)
            return found

        monkeypatch.setattr("celery_semaphore.stores.redis.runner.exchanged", cut)
        seen = list(store.snapshots(names))
        assert halves == [False] * 10 + [True] * 10
        assert [(each.resource, each.occupied) for each in seen] == [(n, 1) for n in names]

    def test_a_child_follows_by_itself(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store()
        permit_of(store.acquire(claim(9), "parent"))
        cluster.fail_over()
        pid = os.fork()
        if not pid:  # pragma: no cover - in the child
            code = 1
            try:
                store.release("parent", claim(9))
                code = 0
            finally:
                os._exit(code)
        assert os.waitpid(pid, 0)[1] == 0
        assert store.snapshot("api").occupied == 0

    def test_threads_get_their_own_answers(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store()
        wrong: list[Any] = []
        ended = threading.Event()

        def run() -> None:
            name = f"of{threading.get_ident()}"
            while not ended.is_set():
                if (seen := store.snapshot(name).resource) != name:
                    wrong.append(seen)

        threads = [threading.Thread(target=run) for _ in range(6)]
        for thread in threads:
            thread.start()
        cluster.fail_over()
        cluster.wait_whole()
        cluster.fail_over()
        ended.set()
        for thread in threads:
            thread.join()
        assert wrong == []

    @pytest.mark.parametrize("used", [True, False], ids=["TRYAGAIN", "ASK"])
    def test_while_the_slot_migrates(
        self, cluster: ClusterServer, open_store: Open, used: bool
    ) -> None:
        store = open_store(timeout=1.0)
        permit = permit_of(store.acquire(claim(2), "a"))
        if not used:
            cluster.flush()
        source, _ = migration = cluster.begin_migration()
        since, error = time.monotonic(), "TRYAGAIN" if used else "ASK"
        before, asked = answers_of(source, error), questions(cluster)
        with pytest.raises(StoreUnavailable, match=r"(TRYAGAIN|ASK).*being moved"):
            store.acquire(claim(2), "b")
        assert time.monotonic() - since < 2
        assert answers_of(source, error) - before == 1 + 4
        assert questions(cluster) - asked <= 1 + 4  # by new connections
        cluster.end_migration(*migration)
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING
        assert store.renew([permit]) == {"a": Renewal.OK if used else Renewal.RESTORED}

    def test_a_slot_that_moves_at_once(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store()
        permit = permit_of(store.acquire(claim(2), "a"))
        cluster.migrate_at_once()
        assert store.renew([permit]) == {"a": Renewal.OK}
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING


class TestOutages:
    @pytest.mark.parametrize("url", ["redis+cluster", "redis"])
    def test_a_lost_owner_is_replaced(
        self, cluster: ClusterServer, open_store: Open, url: str
    ) -> None:
        """A client that knows the owner's address alone has learned of the others."""
        owner = cluster.owner()
        store = open_store(f"{url}://127.0.0.1:{owner.port}", timeout=1.0)
        permit_of(store.acquire(claim(2), "a"))
        cluster.kill_owner()

        with pytest.raises(StoreUnavailable, match="of a Redis Cluster"):
            store.snapshot("api")

        def answered() -> bool:
            with suppress(StoreUnavailable):
                return bool(store.snapshot("api"))
            return False

        wait_until(answered, 15, "the replica answers")

    def test_a_call_to_an_owner_that_hangs_is_bounded(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store(timeout=0.4)
        permit_of(store.acquire(claim(2), "a"))
        cluster.pause_owner()
        since = time.monotonic()
        with pytest.raises(StoreUnavailable):
            store.acquire(claim(2), "b")
        assert time.monotonic() - since < 2 * 0.4 + 0.2

    def test_a_call_to_nodes_that_all_hang_is_bounded(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store(timeout=0.4)
        permit_of(store.acquire(claim(2), "a"))
        cluster.hurt = True
        for node in cluster.nodes:
            node.pause()
        since = time.monotonic()
        with pytest.raises(StoreUnavailable):
            store.acquire(claim(2), "b")
        assert time.monotonic() - since < 2 * 0.4 + 0.2

    def test_a_user_without_info_and_cluster(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        """It finds its way by MOVED alone, and asks any node that it was told of."""
        for node in cluster.nodes:
            node.ask("ACL SETUSER worker on nopass ~* +@all -info -cluster")
        store = open_store(cluster.url.replace("//", "//worker:any@"), timeout=1.0)
        permit_of(store.acquire(claim(2), "a"))
        lost = cluster.kill_owner()
        cluster.wait_owner_is_not(lost)
        permit_of(store.acquire(claim(2), "b"))


@pytest.fixture
def node() -> Iterator[Node]:
    """One node, to which no slot belongs yet."""
    need(ValkeyServer)
    with ValkeyNode(cluster_require_full_coverage="no") as node:
        yield node


class TestHealth:
    def test_no_node_serves_the_slot(self, node: Node) -> None:
        said = rf"CLUSTERDOWN.*:{node.port}.*slot {SLOT}"
        with (
            closing(store_from_url(node.url)) as store,
            pytest.raises(StoreUnavailable, match=said),
        ):
            store.check()

    def test_some_slots_have_no_node(self, node: Node) -> None:
        node.ask("CLUSTER ADDSLOTSRANGE", 0, 9999)
        wait_until(lambda: node.info("CLUSTER INFO")["cluster_state"] == "ok", 10)
        with closing(store_from_url(node.url)) as store:
            (warning,) = store.check()
        assert "10000 of its 16384 slots" in warning
        assert str(node.port) in warning

    def test_a_replica_in_the_owners_place(self, cluster: ClusterServer) -> None:
        said = r"replica.*role=slave.*address_remap"
        with cluster.replica().client() as client, pytest.raises(StoreUnavailable, match=said):
            examine(client.connection_pool.get_connection(), "{celery-semaphore}:check")

    def test_another_database(self, cluster: ClusterServer) -> None:
        """Valkey 9 can have several in a Cluster."""
        with ValkeyNode(cluster_databases="4") as node:
            node.ask("CLUSTER ADDSLOTSRANGE", 0, 16383)
            wait_until(lambda: node.info("CLUSTER INFO")["cluster_state"] == "ok", 10)
            store = store_from_url(node.database(3))
            with pytest.raises(ConfigurationError, match=r"database 3 .* database 0 only"):
                store.check()
            store.close()


def in_parallel(call: Callable[[], object], threads: int = 6) -> None:
    begun = threading.Barrier(threads)

    def run() -> None:
        begun.wait()
        for _ in range(20):
            call()

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()


def connections(node: Node) -> int:
    return str(node.ask("CLIENT LIST")).count(NAME)
