"""In a Redis Cluster: any node is an address, and MOVED leads to the owner of the slot."""

from __future__ import annotations

import time

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from tests.support.calling import SOON
from tests.support.cluster import ClusterServer
from tests.support.process import wait_until
from tests.support.variants import also

from .caller import Caller
from .conftest import OpenStore, StartCaller

pytestmark = pytest.mark.timeout(400)
LEASE_S = 3.0
CLAIMS = [Claim("api", None, 1)]


def url_of(cluster: ClusterServer, n: int) -> str:
    return f"redis://127.0.0.1:{cluster.nodes[n].port}/0"


def test_each_node_leads_to_the_owner(cluster: ClusterServer, start_caller: StartCaller) -> None:
    """Also a replica."""
    for n in range(len(cluster.nodes)):
        caller = start_caller().open(url_of(cluster, n), limit=10)
        assert caller.acquire(timeoutMs=0)["token"]
        assert caller.ask("available", at="api") == 9 - n


@pytest.mark.parametrize("how", ["dies", *also("fails over")])
def test_another_node_takes_over(
    cluster: ClusterServer, caller: Caller, open_store: OpenStore, how: str
) -> None:
    """The client knows the owner's address alone; it holds its permit, and others wait."""
    owner = cluster.owner()
    caller.open(f"redis://127.0.0.1:{owner.port}/0", limit=1, leaseMs=LEASE_S * 1000)
    token = caller.acquire()["token"]
    if how == "dies":
        cluster.kill_owner()
        cluster.wait_owner_is_not(owner)
    else:
        cluster.fail_over()
    store = open_store(cluster.url, lease=LEASE_S)
    until = time.monotonic() + LEASE_S
    while time.monotonic() < until:
        assert not isinstance(store.acquire(CLAIMS, "python"), Permit)
        time.sleep(0.05)

    def still_held() -> bool:
        answer = caller.begin("holders", at="api")
        return answer.exception(SOON) is None and answer.result()[0]["token"] == token

    wait_until(still_held, SOON)
    caller.release()
    wait_until(lambda: isinstance(store.acquire(CLAIMS, "other"), Permit), SOON)
