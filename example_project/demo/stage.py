"""Start what the demo needs: a broker that keeps the permits, too, the service, and two workers."""

from functools import partial
from pathlib import Path

from .. import programs

PROCESSES = 8  # of each worker


class Stage(programs.Stage):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.broker = self.witness = ""

    def set(self) -> None:
        self.broker, self.witness = self.valkey(), self.service()
        env = {"DEMO_BROKER": self.broker, "DEMO_SERVICE": self.witness}
        for name in ("worker-1", "worker-2"):
            self.worker(name, "example_project.demo.tasks", PROCESSES, **env)
        for worker in self.workers:
            worker.wait_until(partial(_is_ready, worker))


def _is_ready(worker: programs.Program) -> bool:
    return b" ready." in worker.log.read_bytes()
