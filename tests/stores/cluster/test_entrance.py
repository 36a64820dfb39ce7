"""Where a Redis Cluster is entered."""

from __future__ import annotations

from typing import Any

import pytest

from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from tests.support.cluster import ClusterServer
from tests.support.servers import ValkeyServer

from ..conftest import claim, permit_of
from .conftest import Open


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
