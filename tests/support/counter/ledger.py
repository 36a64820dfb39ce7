"""What the counting server knows."""

import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from typing import Any

LOG_LENGTH = 200_000


@dataclass
class Run:
    """One body that is inside, and the connection that its process keeps open."""

    resource: str
    name: str
    task: str
    pid: int
    connection: object


@dataclass
class Resource:
    inside: set[str] = field(default_factory=set)
    max_inside: int = 0
    entries: int = 0
    ends: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("completed", "failed", "closed", "pardoned"), 0)
    )
    tasks: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(_task))
    log: deque[tuple[float, str, str, str, int, int]] = field(
        default_factory=lambda: deque(maxlen=LOG_LENGTH)
    )

    def enter(self, run: Run) -> None:
        self.inside.add(run.name)
        self.max_inside = max(self.max_inside, len(self.inside))
        self.entries += 1
        self.tasks[run.task]["entries"] += 1
        self._note("entered", run)

    def end(self, run: Run, how: str) -> None:
        self.inside.discard(run.name)
        self.ends[how] += 1
        self.tasks[run.task][how] += 1
        self._note(how, run)

    def _note(self, event: str, run: Run) -> None:
        self.log.append((time.monotonic(), event, run.task, run.name, run.pid, len(self.inside)))

    def stats(self) -> dict[str, Any]:
        return {
            "inside": len(self.inside),
            "max_inside": self.max_inside,
            "entries": self.entries,
            **self.ends,
            "tasks": self.tasks,
        }


def _task() -> dict[str, int]:
    return {"entries": 0, "completed": 0, "failed": 0, "closed": 0, "pardoned": 0}


class Ledger:
    """Runs come in by name; they end by leaving, or with their connection."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.resources: dict[str, Resource] = defaultdict(Resource)
        self.runs: dict[str, Run] = {}
        self.let_go: set[str] = set()

    def enter(self, connection: object, resource: str, name: str, task: str, pid: int) -> int:
        run = Run(resource, name, task, pid, connection)
        self.runs[name] = run
        self.resources[resource].enter(run)
        return len(self.resources[resource].inside)

    def leave(self, name: str, how: str) -> bool:
        run = self.runs.pop(name, None)
        if run:
            self.resources[run.resource].end(run, how)
        return run is not None

    def close(self, connection: object) -> None:
        for run in [run for run in self.runs.values() if run.connection is connection]:
            self.leave(run.name, "closed")

    def pardon(self, pid: int) -> int:
        """Count the runs of a paused process no more, because its lease is over."""
        runs = [run for run in self.runs.values() if run.pid == pid]
        for run in runs:
            self.leave(run.name, "pardoned")
        return len(runs)
