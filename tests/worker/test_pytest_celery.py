"""pytest-celery's own fixtures: over local processes, or its containers where a Docker engine runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_celery import (
    CeleryBackendCluster,
    CeleryBrokerCluster,
    CeleryTestBroker,
    CeleryTestSetup,
    CeleryTestWorker,
    CeleryWorkerCluster,
)

from tests.support.counter import Counter, CounterServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker

CONTAINERS = Path("/var/run/docker.sock").exists() and "PYTEST_CELERY_CONTAINERS" in os.environ


class LocalNode:
    """What a pytest-celery node asks of its container, from a local process."""

    def __init__(self, name: str, config: dict[str, str], process: Any = None) -> None:
        self.id = self.name = name
        self.celeryconfig = config
        self._process = process

    @property
    def status(self) -> str:
        return "running" if self._process is None or self._process.running() else "exited"

    def logs(self) -> str:
        return self._process.log() if self._process else ""

    def ready(self, **_: Any) -> bool:
        return True

    def kill(self, **_: Any) -> None:
        self._process.kill()

    def reload(self) -> None:
        """A container's attributes are stale until it is reloaded; a process's are not."""

    def restart(self, **_: Any) -> None:
        self._process.start()

    def teardown(self) -> None:
        if self._process:
            self._process.discard()


if not CONTAINERS:

    @pytest.fixture
    def celery_broker_cluster(valkey: ValkeyServer) -> CeleryBrokerCluster:
        url = valkey.url
        broker = CeleryTestBroker(LocalNode("broker", {"url": url, "host_url": url}))
        return CeleryBrokerCluster(broker)

    @pytest.fixture
    def celery_backend_cluster(valkey: ValkeyServer) -> CeleryBackendCluster:
        url = valkey.database(2)
        backend = CeleryTestBroker(LocalNode("backend", {"url": url, "host_url": url}))
        return CeleryBackendCluster(backend)

    @pytest.fixture
    def celery_worker_cluster(
        valkey: ValkeyServer, counter_server: CounterServer, celery_setup_app: Any
    ) -> Iterator[CeleryWorkerCluster]:
        env = {"BROKER": valkey.url, "BACKEND": valkey.database(2), **counter_server.env}
        nodes = []
        for name in ("first", "second"):
            process = CeleryWorker("tests.worker.app", name=name, concurrency=2, env=env).start()
            nodes.append(CeleryTestWorker(LocalNode(name, {}, process), celery_setup_app))
        yield CeleryWorkerCluster(*nodes)
        for node in nodes:
            node.container.teardown()


@pytest.mark.skipif(CONTAINERS, reason="its containers do not know our test app")
def test_limits_hold_when_a_worker_is_killed(
    celery_setup: CeleryTestSetup, counter: Counter, semaphore_snapshot: Any
) -> None:
    """Without ``semaphore_url``: permits are kept where the broker is, and seen there by our own fixture."""
    results = [celery_setup.app.send_task("hold", (0.05, "smoke")) for _ in range(12)]
    wait_until(lambda: semaphore_snapshot("one").waiting, 20, "somebody waits")
    wait_until(lambda: all(r.ready() for r in results), 30, "all are done")
    assert counter.stats("smoke")["max_inside"] == 1
    celery_setup.worker_cluster[1].kill()
    assert celery_setup.worker_cluster[1].container.status == "exited"
    celery_setup.worker_cluster[1].restart()
    celery_setup.app.send_task("hold", (0.0, "smoke")).get(timeout=20)
    assert counter.stats("smoke")["completed"] == 13
