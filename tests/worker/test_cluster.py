"""Permits in a Redis Cluster, whose nodes are replaced while tasks run and wait. The broker is another server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from tests.support.cluster import ClusterServer
from tests.support.process import wait_until
from tests.support.variants import also

from .conftest import Site, valkey_only

pytestmark = valkey_only
API = Claim("api", None, 5)
TASKS = 60


def lose_owner(cluster: ClusterServer) -> None:
    cluster.wait_owner_is_not(cluster.kill_owner())


def check_replaced(
    site: Site, cluster: ClusterServer, how: str, replace: Callable[[ClusterServer], object]
) -> None:
    """All tasks run under the limit, and their owner is replaced while some run and many wait."""
    site.store_url = cluster.url
    conf: dict[str, Any] = {"semaphore_on_saturated": how, "semaphore_timeout": 1}
    workers = [site.start(name=name, concurrency=4, conf=conf) for name in ("a", "b")]
    results = [site.send("call_late" if n % 2 else "call", 0.3, "api") for n in range(TASKS)]
    wait_until(lambda: site.counter.stats("api")["completed"] >= 5, 20, "some are done")
    replace(cluster)
    wait_until(lambda: all(result.ready() for result in results), 60, "all are done")
    assert {result.state for result in results} == {"SUCCESS"}
    stats = site.counter.stats("api")
    assert (stats["completed"], stats["entries"]) == (TASKS, TASKS)
    assert stats["max_inside"] == 5
    assert not any("lost its permit" in worker.log() for worker in workers)
    site.wait_all_back(API, site.lease + 5)


@pytest.mark.parametrize("how", ["park", *also("requeue")])
def test_a_failover(site: Site, cluster: ClusterServer, how: str) -> None:
    check_replaced(site, cluster, how, ClusterServer.fail_over)


@pytest.mark.slow
def test_a_lost_owner(site: Site, cluster: ClusterServer) -> None:
    check_replaced(site, cluster, "requeue", lose_owner)


@pytest.mark.rabbitmq
@pytest.mark.slow
def test_a_failover_with_rabbitmq(rabbit_site: Site, cluster: ClusterServer) -> None:
    check_replaced(rabbit_site, cluster, "park", ClusterServer.fail_over)
