"""Publisher: a message is acknowledged after its successor is published, and a shutdown waits for that."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker
from tests.worker.conftest import Site, queued


def with_slow_publishing(site: Site, valkey: ValkeyServer, proxy: Proxy) -> CeleryWorker:
    """A worker that publishes through the proxy, and all else as always; the permit is taken."""
    url = site.broker.replace(str(valkey.port), str(proxy.port))
    worker = site.start(concurrency=4, env={"PUBLISH_BY": url}, conf={"semaphore_keep": False})
    site.occupy()
    return worker


def test_not_acknowledged_before_its_successor_is_published(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    proxy = start_proxy(valkey.port)
    worker = with_slow_publishing(site, valkey, proxy)
    proxy.cut()
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: "waiting tasks stay here" in worker.log(), 20, "it cannot be published")
    time.sleep(1.5)  # an acknowledgement would have been sent by now
    with valkey.client() as client:
        assert client.hlen("unacked") == 1
    proxy.restore()
    site.let_go()
    result.get(timeout=30)
    with valkey.client() as client:
        wait_until(lambda: client.hlen("unacked") == 0, 10, "all are acknowledged")


def test_a_shutdown_waits_for_what_is_being_published(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """Or the old message goes back as well as the new one, and one of them is a copy."""
    proxy = start_proxy(valkey.port)
    worker = with_slow_publishing(site, valkey, proxy)
    proxy.delay(0.3)
    results = [site.send("hold", 0.0, "w") for _ in range(6)]
    wait_until(lambda: worker.log().count(" waits ") >= 6, 20, "they wait")
    worker.warm()
    site.let_go()
    worker.wait(40)
    assert sorted(each["id"] for each in queued(valkey)) == sorted(result.id for result in results)
    site.start(concurrency=2)
    wait_until(lambda: all(r.ready() for r in results), 60, "all are done")
    tasks = site.counter.stats("w")["tasks"]
    assert [tasks[result.id]["entries"] for result in results] == [1] * 6
