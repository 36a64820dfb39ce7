"""What a check says of a Redis Cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from celery_semaphore.core.facts import DescribedStore
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conformance.acquisition import limits_set
from tests.conftest import need
from tests.support.cluster import SLOT, ClusterServer, Node, ValkeyNode
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer


@pytest.fixture
def node() -> Iterator[Node]:
    """One node, to which no slot belongs yet."""
    need(ValkeyServer)
    with ValkeyNode(cluster_require_full_coverage="no") as node:
        yield node


class TestHealth:
    @pytest.mark.usefixtures("redis_py")
    def test_no_node_serves_the_slot(self, node: Node) -> None:
        said = rf"CLUSTERDOWN.*:{node.port}.*slot {SLOT}.*CLUSTER INFO says"
        with (
            closing(store_from_url(node.url)) as store,
            pytest.raises(StoreUnavailable, match=said),
        ):
            store.check()

    def test_a_node_is_named_as_one(self, cluster: ClusterServer) -> None:
        with closing(store_from_url(cluster.url)) as store:
            assert isinstance(store, DescribedStore)
            said = store.about()
        assert said.role == "primary of a part of a Redis Cluster, 1 replica(s)"
        assert said.address.startswith(f"127.0.0.1:{cluster.owner().port}/0")

    def test_some_slots_have_no_node(self, node: Node) -> None:
        node.ask("CLUSTER ADDSLOTSRANGE", 0, 9999)
        wait_until(lambda: node.info("CLUSTER INFO")["cluster_state"] == "ok", 10)
        with closing(store_from_url(node.url)) as store:
            (warning,) = store.check()
        assert "10000 of its 16384 slots" in warning
        assert str(node.port) in warning

    @pytest.mark.usefixtures("redis_py")
    def test_a_replica_in_the_owners_place(self, cluster: ClusterServer) -> None:
        """It answers that another node serves the slot, whose address leads to it again."""
        replica = cluster.replica()
        leads_there = {"address_remap": lambda _: ("127.0.0.1", replica.port)}
        given = StoreOptions(transport_options=leads_there)
        with (
            closing(store_from_url(replica.url, given)) as store,
            pytest.raises(StoreUnavailable, match=rf":{replica.port} of a Redis.*address_remap"),
        ):
            store.check()

    def test_another_database(self, cluster: ClusterServer) -> None:
        """Valkey 9 can have several in a Cluster."""
        with ValkeyNode(cluster_databases="4") as node:
            node.ask("CLUSTER ADDSLOTSRANGE", 0, 16383)
            wait_until(lambda: node.info("CLUSTER INFO")["cluster_state"] == "ok", 10)
            store = store_from_url(node.database(3))
            with pytest.raises(ConfigurationError, match=r"database 3 .* database 0 only"):
                store.check()
            store.close()

    @pytest.mark.usefixtures("redis_py")
    def test_a_user_that_may_not_ask_for_nodes(self, cluster: ClusterServer) -> None:
        for node in cluster.nodes:
            node.ask("ACL SETUSER worker on nopass ~* +@all -cluster")
        with closing(store_from_url(cluster.url.replace("//", "//worker:any@"))) as store:
            (warning,) = store.check()
        assert "+cluster|slots +cluster|info" in warning

    def test_a_server_that_is_no_node_among_nodes(
        self, cluster: ClusterServer, valkey: ValkeyServer
    ) -> None:
        """The permits are in the Cluster, whichever is named first."""
        url = f"redis+cluster://127.0.0.1:{valkey.port};127.0.0.1:{cluster.owner().port}"
        with closing(store_from_url(url)) as store:
            store.set_limit(3, "api")
        with closing(store_from_url(cluster.url)) as store:
            assert limits_set(store) == {"api": 3}

    def test_servers_that_are_no_nodes(self, start_valkey: Callable[..., ValkeyServer]) -> None:
        """Each would keep permits of its own."""
        ports = [start_valkey().port for _ in range(2)]
        url = "redis+cluster://" + ";".join(f"127.0.0.1:{port}" for port in ports)
        said = r"cluster support disabled.*remove \+cluster"
        with (
            closing(store_from_url(url, StoreOptions(timeout=1.0))) as store,
            pytest.raises(StoreUnavailable, match=said),
        ):
            store.check()
