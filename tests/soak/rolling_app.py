"""The app of the rolling soak: each task with and without a limit, with early and with late acks."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from billiard import pool
from celery import Celery
from celery.utils.log import get_logger
from celery.worker.request import Request

from celery_semaphore import LimitedTask
from celery_semaphore.worker.main_process.bootstep import SemaphoreConsumerStep
from tests.soak.kinds import MIXED, PLAIN, WAITS
from tests.support.counter import Counter
from tests.worker import faults

LATE = {"acks_late": True, "reject_on_worker_lost": True}

app = Celery("rolling", broker=os.environ["BROKER"])
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    task_ignore_result=True,
    semaphore_url=os.environ["STORE"],
    **json.loads(os.environ["CONF"]),
)
counter = Counter.from_env()


def visit(self: Any, resource: str, seconds: float) -> None:
    """Be counted under the worker's main process."""
    with counter.inside(resource, self.request.id, os.getppid()):
        time.sleep(seconds)


def on_saturated(wait: str, acks: str) -> str:
    """Return how the tasks of this kind wait."""
    if wait == MIXED:
        return "park" if acks == "early" else "requeue"
    return wait


acknowledge = Request.acknowledge


def acknowledge_and_tell(self: Request) -> None:
    """Tell the judge when the loop came to it, which a busy machine may hold up for seconds."""
    acknowledge(self)
    get_logger(__name__).info("acknowledged %s at %.3f", self.id, time.monotonic())


stop, shutdown = SemaphoreConsumerStep.stop, SemaphoreConsumerStep.shutdown


def stop_and_tell(self: SemaphoreConsumerStep, c: Any) -> None:
    """Tell the judge since when our step is at it: Celery may have taken most of the time that a shutdown has."""
    get_logger(__name__).info("our step stops at %.3f", time.monotonic())
    stop(self, c)


def shut_down_and_tell(self: SemaphoreConsumerStep, _c: Any) -> None:
    """Tell it likewise: between the two Celery ends its pool, which may take as long."""
    get_logger(__name__).info("our step shuts down at %.3f", time.monotonic())
    shutdown(self, _c)


for acks, options in (("early", {}), ("late", LATE)):
    given: dict[str, Any] = {"bind": True, "shared": False, **options}
    app.task(**given, name=f"{PLAIN} {acks}")(visit)
    for wait in WAITS:
        app.task(
            **given,
            name=f"{wait} {acks}",
            base=LimitedTask,
            semaphore=wait,
            limit=int(os.environ["LIMIT"]),
            on_saturated=on_saturated(wait, acks),
        )(visit)
faults.log_noted()
Request.acknowledge = acknowledge_and_tell
SemaphoreConsumerStep.stop = stop_and_tell  # type: ignore[method-assign]
SemaphoreConsumerStep.shutdown = shut_down_and_tell  # type: ignore[method-assign]
# Seconds that a process waits at its end until its last result was read, which for a task that Celery forgot
# at a warm shutdown never happens: 1, not 30.
pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = 10
