"""Nodes of a Redis Cluster that are lost, or hang."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest

from celery_semaphore.errors import StoreUnavailable
from tests.support.cluster import ClusterServer
from tests.support.process import wait_until

from ..conftest import claim, permit_of
from .conftest import Open

TIMEOUT_S = 1.5  # of a call: twice as much is promised, and each further repetition would take as much again


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
        store = open_store(timeout=TIMEOUT_S)
        permit_of(store.acquire(claim(2), "a"))
        cluster.pause_owner()
        since = time.monotonic()
        with pytest.raises(StoreUnavailable):
            store.acquire(claim(2), "b")
        assert time.monotonic() - since < 2.5 * TIMEOUT_S

    def test_a_call_to_nodes_that_all_hang_is_bounded(
        self, cluster: ClusterServer, open_store: Open
    ) -> None:
        store = open_store(timeout=TIMEOUT_S)
        permit_of(store.acquire(claim(2), "a"))
        cluster.hurt = True
        for node in cluster.nodes:
            node.pause()
        since = time.monotonic()
        with pytest.raises(StoreUnavailable):
            store.acquire(claim(2), "b")
        assert time.monotonic() - since < 2.5 * TIMEOUT_S

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
