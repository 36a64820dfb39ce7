"""A worker whose metrics a test reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.metrics.scraped import Scraped
from tests.support.process import free_port, wait_until
from tests.support.worker import CeleryWorker

from ..conftest import Site


class Watched:
    """A worker, and what it has counted."""

    def __init__(self, worker: CeleryWorker, port: int) -> None:
        self.worker, self.port = worker, port

    def scraped(self) -> Scraped:
        return Scraped.of(self.port)

    def get(self, name: str, **labels: str) -> float:
        return self.scraped().get(name, **labels)

    def wait(self, value: float, name: str, **labels: str) -> None:
        wait_until(
            lambda: self.get(name, **labels) == value,
            20,
            f"{name} {labels} is {value}",
            log=lambda: f"it is {self.get(name, **labels)}",
        )


StartWatched = Callable[..., Watched]


@pytest.fixture
def watched(site: Site) -> StartWatched:
    """Starts a worker with metrics."""

    def start(conf: dict[str, Any] | None = None, **options: Any) -> Watched:
        port = free_port()
        conf = {"semaphore_metrics_port": port, **(conf or {})}
        return Watched(site.start(conf=conf, **{"concurrency": 2, **options}), port)

    return start
