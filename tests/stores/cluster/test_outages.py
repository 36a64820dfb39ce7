"""Nodes of a Redis Cluster that are lost, or hang."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress

import pytest

from celery_semaphore.core.store import Store
from celery_semaphore.errors import StoreUnavailable
from tests.conftest import need
from tests.support.cluster import ClusterServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from ..conftest import claim, permit_of
from .conftest import Open

# Of a call: twice as much is promised, and each further repetition would take as much again.
TIMEOUT_S = 1.5
SHORT_S = 0.4  # no replica takes over within twice as much


def refused_within(seconds: float, store: Store) -> None:
    since = time.monotonic()
    with pytest.raises(StoreUnavailable):
        store.acquire(claim(2), "b")
    assert time.monotonic() - since < seconds


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
        store = open_store(timeout=SHORT_S)
        permit_of(store.acquire(claim(2), "a"))
        cluster.pause_owner()
        refused_within(2.5 * SHORT_S, store)

    def test_a_call_to_nodes_that_all_hang_is_bounded(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store(timeout=TIMEOUT_S)
        permit_of(store.acquire(claim(2), "a"))
        cluster.hurt = True
        for node in cluster.nodes:
            node.pause()
        refused_within(2.5 * TIMEOUT_S, store)

    def test_nodes_that_are_gone_do_not_take_the_time_of_each_call(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        """One call has time for one of them, and the next one asks another."""
        with ExitStack() as stack:
            gone = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(4)]
            hosts = [f"127.0.0.1:{each.getsockname()[1]}" for each in gone]  # none of them answers
            hosts.append(f"127.0.0.1:{cluster.owner().port}")
            store = open_store(f"redis+cluster://{';'.join(hosts)}", timeout=SHORT_S)

            def answered() -> bool:
                with suppress(StoreUnavailable):
                    permit_of(store.acquire(claim(2), "a"))
                    return True
                return False

            wait_until(answered, 20, "a node answers")

    def test_an_owner_that_forgot_the_others(self, open_store: Open) -> None:
        """It was started again without its file, at its old address, which is the only one of the URL."""
        need(ValkeyServer)
        with ClusterServer() as cluster:
            owner, replica = cluster.owner(), cluster.replica()
            store = open_store(f"redis://127.0.0.1:{owner.port}", timeout=1.0)
            permit_of(store.acquire(claim(2), "a"))
            # Otherwise it may take over before the store has met the owner that knows nothing.
            replica.ask("CONFIG", "SET", "cluster-replica-no-failover", "yes")
            owner.kill()
            owner.wipe()
            owner.start()
            with pytest.raises(StoreUnavailable):
                store.acquire(claim(2), "b")
            replica.ask("CLUSTER FAILOVER TAKEOVER")

            def answered() -> bool:
                with suppress(StoreUnavailable):
                    return bool(store.snapshot("api").holders)
                return False

            wait_until(answered, 20, "the replica answers")

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
