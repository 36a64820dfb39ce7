"""TaskView: why a task waits, or what else is known of it, as an operator sees it. Durations are in seconds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ..core.task_wait import WaitState
from .views import PermitView, ResourceView, WaiterView


class TaskState(StrEnum):
    """Says what a task does."""

    WAITS = "waits"
    GRANTED = "granted"  # it waited, and a permit is kept for it
    RETURNS = "returns"  # its wait is over, and its message goes back to its queue without a permit
    RUNS = "runs"  # it holds a permit, or a worker says that it runs
    PREFETCHED = "prefetched"  # a worker has its message, and none of its processes is free
    RECEIVED = "received"  # a worker has its message, and it has not asked for a permit yet
    ENDED = "ended"  # by its result
    UNKNOWN = "unknown"


STATES = {WaitState.GRANTED: TaskState.GRANTED, WaitState.ENDED: TaskState.RETURNS}


@dataclass(frozen=True, slots=True)
class WaitView:
    """Shows one wait of a task, and the semaphore or key where it stands in line."""

    state: TaskState  # it waits, was granted a permit, or returns
    at: ResourceView  # with its permits, and no waiter but this one
    also: tuple[
        ResourceView, ...
    ]  # the other semaphores and keys that it wants, without permits and waiters
    grant_left: float | None = None  # how long its grant lasts if it is not taken up

    @property
    def waiter(self) -> WaiterView:
        return self.at.waiters[0]


@dataclass(frozen=True, slots=True)
class HeldView:
    """Shows one permit of a task, and its semaphore or key."""

    resource: str  # its name in the store
    semaphore: str
    key: str | None
    permit: PermitView


@dataclass(frozen=True, slots=True)
class TaskView:
    """Shows one task: its waits, else its permits, else what workers and its result say."""

    task_id: str
    state: TaskState
    task: str | None = None  # its name, if a worker answered
    worker: str | None = None  # that has it, if one answered
    waits: tuple[WaitView, ...] = ()  # oldest first
    permits: tuple[HeldView, ...] = ()
    result: str | None = None  # the state of its result, once that is ready
    note: str | None = None  # why tasks and workers are not named
