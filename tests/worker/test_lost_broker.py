"""A lost connection to the broker, while a worker holds waiting tasks and asks for more."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

from .conftest import Site
from .test_brokers import at_port


def test_a_worker_that_holds_waiting_tasks_connects_again(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """Waiting tasks raise the prefetch, so a BRPOP is under way beside them."""
    site.lease = 60.0
    proxy = start_proxy(valkey.port)
    worker = site.start(
        concurrency=2,
        env={"BROKER": at_port(site.broker, proxy.port)},
        conf={"semaphore_requeue_delay": 30.0},
    )
    site.occupy()
    for _ in range(3):
        site.send("hold", 0.0, "w")
    with valkey.client() as client:
        wait_until(lambda: client.hlen("unacked") == 3, 20, "it holds them until they are due")
    proxy.cut()
    worker.wait_until(lambda: "broker lost" in worker.log(), 20, "it has noticed")
    proxy.restore()
    site.send("free").get(timeout=30)
    assert worker.running()
    assert "Unrecoverable" not in worker.log()
