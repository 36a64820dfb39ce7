"""The exporter as its users start it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Protocol

import pytest

from tests.support.autoscaler import get
from tests.support.forked import OURS, ForkedProcess
from tests.support.process import free_port


class Exporting(ForkedProcess):
    """`celery -A tests.worker.app semaphore metrics`, in a process of its own."""

    def __init__(self, *words: str, env: Mapping[str, str], port: int | None = None) -> None:
        self.port = port or free_port()
        command = [sys.executable, "-m", "celery", "-A", "tests.worker.app", "semaphore", "metrics"]
        command += ["--port", str(self.port), *words]
        super().__init__("exporter", command, env={"PYTHONPATH": OURS} | dict(env))

    def text(self) -> str:
        return get(self.port, "/metrics")[1]

    def scale(self, queue: str = "celery") -> tuple[int, str]:
        return get(self.port, f"/scale?queue={queue}")

    def is_up(self, up: int = 1) -> bool:
        return f"\ncelery_semaphore_up {up}.0\n" in self.text()

    def wait_up(self, up: int = 1) -> None:
        self.wait_until(lambda: self.is_up(up), 40, f"up is {up}")


class StartExporter(Protocol):
    def __call__(
        self, *words: str, env: Mapping[str, str], port: int | None = None
    ) -> Exporting: ...


@pytest.fixture
def start_exporter() -> Iterator[StartExporter]:
    started: list[Exporting] = []

    def start(*words: str, env: Mapping[str, str], port: int | None = None) -> Exporting:
        exporter = Exporting(*words, env=env, port=port)
        started.append(exporter)
        exporter.start()
        return exporter

    yield start
    for exporter in started:
        print(exporter.log_tail(50))  # noqa: T201 - pytest shows it when a test failed
        exporter.discard()
