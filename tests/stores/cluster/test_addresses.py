"""Addresses that the nodes of a Redis Cluster announce."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from celery_semaphore.errors import StoreUnavailable
from tests.support.cluster import ClusterServer, Node
from tests.support.process import wait_until

from ..conftest import claim, permit_of
from .conftest import Open, answers_of, finder_of, set_on_all


class TestAnnouncedAddresses:
    @pytest.fixture(autouse=True)
    def announced_as_before(self, cluster: ClusterServer) -> Iterator[None]:
        yield
        set_on_all(cluster, cluster_preferred_endpoint_type="ip", cluster_announce_hostname="")

    def test_no_host_is_the_same_host(self, cluster: ClusterServer, open_store: Open) -> None:
        set_on_all(cluster, cluster_preferred_endpoint_type="unknown-endpoint")
        store = open_store(f"redis://localhost:{cluster.another().port}")
        permit_of(store.acquire(claim(), "a"))
        assert finder_of(store).place == ("localhost", cluster.owner().port)

    def test_a_host_name(self, cluster: ClusterServer, open_store: Open) -> None:
        self.announce(cluster, "localhost")
        store = open_store(f"redis://127.0.0.1:{cluster.another().port}")
        permit_of(store.acquire(claim(), "a"))
        assert finder_of(store).place == ("localhost", cluster.owner().port)

    def announce(self, cluster: ClusterServer, name: str) -> None:
        set_on_all(
            cluster,
            cluster_preferred_endpoint_type="hostname",
            cluster_announce_hostname=name,
        )
        # The others learn a node's name by gossip.
        wait_until(lambda: all(knows_all(node, name) for node in cluster.nodes), 10, "all names")

    def test_an_address_that_leads_nowhere_from_here(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        self.announce(cluster, "inside.invalid")
        url = f"redis+cluster://127.0.0.1:{cluster.another().port}"
        with pytest.raises(StoreUnavailable, match=r"inside\.invalid.*address_remap"):
            open_store(url, timeout=1.0).acquire(claim(), "a")
        store = open_store(url, address_remap=lambda address: ("127.0.0.1", address[1]))
        permit_of(store.acquire(claim(), "a"))
        assert {host for host, _ in finder_of(store).nodes} == {"127.0.0.1"}

    def test_a_remap_that_fails(self, cluster: ClusterServer, open_store: Open) -> None:
        store = open_store(address_remap=lambda address: {}[address])
        with pytest.raises(StoreUnavailable, match=r"address_remap raised KeyError.*127\.0\.0\.1"):
            store.acquire(claim(), "a")

    @pytest.mark.usefixtures("redis_py")
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


def knows_all(node: Node, name: str) -> bool:
    with node.client() as client:
        client.response_callbacks.clear()
        lines = client.execute_command("CLUSTER NODES").decode().splitlines()
    return all(f",{name} " in line for line in lines)
