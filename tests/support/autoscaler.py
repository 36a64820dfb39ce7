"""An autoscaler that follows ``/scale`` and starts and stops workers, in place of KEDA."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any, Self

from .worker import CeleryWorker


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body; 0 if nobody listens."""
    connection = HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()
    except ConnectionError:
        return 0, ""
    finally:
        connection.close()


@dataclass
class Autoscaler:
    """replicas = max(ceil(runnable / processes), floor), within bounds, as KEDA hands it to Kubernetes."""

    port: int  # of the exporter
    queue: str
    launch: Callable[[], CeleryWorker]  # without waiting until it is ready
    processes: int = 2  # of a worker
    most: int = 10  # workers
    growth: int = 10  # workers that one poll may add
    pause: float = 1.0  # seconds between two polls
    awaits_ready: bool = False  # whether it polls only when each worker that it launched is ready
    workers: list[CeleryWorker] = field(default_factory=list)
    ending: list[CeleryWorker] = field(default_factory=list)
    starts: int = 0
    stops: int = 0
    history: list[tuple[float, dict[str, Any], int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.polling = threading.Lock()  # for a test that must not be polled
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(30)

    @property
    def peak(self) -> int:
        return max((count for _, _, count in self.history), default=0)

    def report(self) -> str:
        """Tell how many workers there were over time, and why."""
        began = self.history[0][0] if self.history else 0.0
        line = ", ".join(
            f"{at - began:.0f} s: {count} of {said['runnable']}/{said['waiting']}"
            for at, said, count in self.history
        )
        return f"{self.starts} starts, {self.stops} stops, {self.peak} at once: {line}"

    def _run(self) -> None:
        while not self._over.wait(self.pause):
            with self.polling:
                self.poll()
            if self.awaits_ready:  # a machine may take longer to start one than the pause
                for worker in self.workers:
                    worker.wait_ready()

    def poll(self) -> None:
        status, body = get(self.port, f"/scale?queue={self.queue}")
        if status == 200:  # else the number stays
            said = json.loads(body)
            wanted = max(math.ceil(said["runnable"] / self.processes), said["floor"])
            self._scale_to(min(wanted, self.most, len(self.workers) + self.growth))
            self.history.append((time.monotonic(), said, len(self.workers)))

    def _scale_to(self, wanted: int) -> None:
        while len(self.workers) < wanted:
            self.workers.append(self.launch())
            self.starts += 1
        while len(self.workers) > wanted:
            worker = self.workers.pop()
            worker.warm()
            self.ending.append(worker)
            self.stops += 1
