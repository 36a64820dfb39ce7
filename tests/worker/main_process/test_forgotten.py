"""Tasks that Celery forgets: it wrote them to a process, and flushed its pool before it read that they were accepted.

It does so when its connection to the broker is lost, and at a warm shutdown. The process runs such a task all the
same, and nobody is told of its end: no permit may leak by it, and no task be lost.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import celery
import pytest

from celery_semaphore.core.claim import Claim
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer
from tests.support.variants import also
from tests.support.worker import CeleryWorker

from ..conftest import Site

ONE = Claim("one", None, 1)
FORGETFUL = {"FORGETFUL": "1"}
at_its_end = pytest.mark.skipif(
    celery.VERSION < (5, 6), reason="this Celery forgets no task at a warm shutdown"
)


def written(site: Site, worker: CeleryWorker) -> int:
    """How many tasks the main process has written to its pool."""
    stats = site.client.control.inspect([worker.hostname]).stats() or {}
    return int(stats[worker.hostname]["pool"]["writes"]["total"]) if stats else 0


def forgets(
    site: Site, worker: CeleryWorker, send: Callable[[], object], why: Callable[[], None]
) -> int:
    """Have a task forgotten; the process that runs it now."""
    # A process that has not reported itself to the pool yet is written nothing: stopped then, it never would be.
    wait_until(site.send("free").ready, 20, "its process is up")
    before = written(site, worker)
    (child,) = worker.children()
    os.kill(child, signal.SIGSTOP)
    send()
    wait_until(lambda: written(site, worker) == before + 1, 20, "it is written")
    why()
    worker.wait_until(lambda: "forgot 1" in worker.log(), 20, "it is forgotten")
    os.kill(child, signal.SIGCONT)
    return child


def cut(valkey: ValkeyServer) -> None:
    """End all connections to the broker, and refuse none: kombu may not survive that."""
    client = valkey.client()
    for each in client.client_list():
        if each["db"] == "0" and each["id"] != str(client.client_id()):
            client.client_kill_filter(_id=each["id"])


def test_its_process_dies(site: Site, valkey: ValkeyServer) -> None:
    """The lease ends, although the worker lives on."""
    worker = site.start(concurrency=1, env=FORGETFUL)
    child = forgets(site, worker, lambda: site.send("early", "sleep", "w"), lambda: cut(valkey))
    wait_until(lambda: site.inside("w") == 1, 20, "it runs")
    worker.kill_child(child)
    worker.wait_until(lambda: site.all_back(ONE), site.lease + 5, "the permit is back")


def test_its_process_cannot_give_the_permit_back(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """The lease ends, although worker and process live on."""
    to_store = start_proxy(valkey.port)
    site.store_url = f"redis://127.0.0.1:{to_store.port}/1"
    worker = site.start(concurrency=1, env=FORGETFUL)
    forgets(site, worker, lambda: site.send("hold", None, "w"), lambda: cut(valkey))
    wait_until(lambda: site.inside("w") == 1, 20, "it runs")
    to_store.cut()
    site.let_go("w")
    after = site.send("free")
    wait_until(after.ready, 20, "its process runs the next task")
    to_store.restore()
    worker.wait_until(lambda: site.all_back(ONE), site.lease + 5, "the permit is back")


@at_its_end
@pytest.mark.parametrize("how", ["park", *also("requeue")])
def test_it_is_refused_while_its_worker_ends(site: Site, how: str) -> None:
    """Its message was not acknowledged, and goes back to the broker."""
    conf = {"semaphore_on_saturated": how}
    site.start(name="holder", concurrency=1, queues=["held"], conf=conf)
    site.occupy(queue="held")
    worker = site.start(concurrency=1, conf=conf, env=FORGETFUL)
    results = []
    forgets(site, worker, lambda: results.append(site.send("early", "success", "w")), worker.warm)
    worker.wait(30)
    assert "is saturated" in worker.log()
    site.start(name="heir", concurrency=1, conf=conf)
    site.let_go()
    (result,) = results
    assert result.get(timeout=20) == "1 inside"
    assert site.counter.stats("w")["entries"] == 1
    wait_until(lambda: site.waiting() == 0, 10, "no ticket is left")
    site.wait_all_back(ONE, site.lease + 5)


@at_its_end
@pytest.mark.parametrize("name", ["late", *also("early")])
def test_it_runs_while_its_worker_ends(site: Site, name: str) -> None:
    """It was not acknowledged and runs again, as every task of Celery's; but never beside itself."""
    worker = site.start(concurrency=1, env=FORGETFUL)
    forgets(site, worker, lambda: site.send(name, "nap", "w"), worker.warm)
    worker.wait(30)
    assert site.counter.stats("w")["completed"] == 1
    site.wait_all_back(ONE, 1)
    site.start(name="heir", concurrency=1)
    wait_until(lambda: site.counter.stats("w")["completed"] == 2, 20, "it ran again")
    assert site.counter.stats("w")["max_inside"] == 1
    site.wait_all_back(ONE, 5)
