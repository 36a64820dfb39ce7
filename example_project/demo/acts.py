"""Play the same 300 calls three times."""

import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from celery import Celery

from ..service import LIMIT
from .crash import Crash
from .sight import LEASE, Eyes, Sight

CALLS = 300
LONGEST = 40.0  # seconds of one act
LOOK_PAUSE_S = 0.1  # seconds between two looks


@dataclass
class Act:
    """Describes one run of all calls, and its results."""

    title: str
    task: str
    crash: Crash | None = None
    sight: Sight = field(default_factory=lambda: Sight(0))
    began: float = 0.0
    seconds: float = 0.0
    over: bool = False

    @property
    def limited(self) -> bool:
        return self.task == "limited"

    @property
    def done(self) -> int:
        return self.sight.served if self.limited else self.sight.answered

    def faults(self) -> Iterator[str]:
        """Yield what must never happen in an act with a limit."""
        if self.sight.most > LIMIT:
            yield f"{self.sight.most} callers at once, the limit is {LIMIT}"
        if self.sight.rejected:
            yield f"{self.sight.rejected} calls rejected"
        if self.done < CALLS:
            yield f"{CALLS - self.done} tasks lost, or not done in {LONGEST:g} s"
        elif not self.over:
            yield f"messages or permits were left after {LONGEST:g} s"
        if self.crash and (self.crash.permits_back or LONGEST) > LEASE + 1:
            yield "the dead worker's permits did not come back within a lease"


def play(act: Act, app: Celery, eyes: Eyes, show: Callable[[], None]) -> None:
    """Send all calls, and watch until all are done."""
    eyes.ask("begin")
    act.began = time.time()
    tasks = {str(uuid.uuid4()) for _ in range(CALLS)}
    for task in tasks:
        app.send_task(act.task, task_id=task)
    while not act.over and act.seconds < LONGEST:
        act.sight = eyes.look()
        act.seconds = act.sight.at - act.began
        if act.crash:
            act.crash.see(act.sight, tasks)
        act.over = act.done == CALLS and not act.sight.messages and not act.sight.holders
        show()
        time.sleep(LOOK_PAUSE_S)
