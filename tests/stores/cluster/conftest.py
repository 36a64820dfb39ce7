"""Stores in a Redis Cluster, and what its nodes saw of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis._parsers import BaseParser

from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.cluster import NodeFinder
from tests.conftest import server_fixture
from tests.support.cluster import ClusterServer, Node

Open = Callable[..., RedisStore]
OF_CLUSTER = ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN")
NAME = "under-test"  # of this store's connections

cluster_server = server_fixture(ClusterServer, scope="package")  # one for all modules here


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


@pytest.fixture(params=["6", "5"])
def redis_py(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """redis-py since 6, or before, when it gave no class of its own to these errors."""
    for code in OF_CLUSTER if request.param == "5" else ():
        monkeypatch.delitem(BaseParser.EXCEPTION_CLASSES, code, raising=False)


def finder_of(store: RedisStore) -> NodeFinder:
    finder = store._link._finder
    assert isinstance(finder, NodeFinder)
    return finder


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
