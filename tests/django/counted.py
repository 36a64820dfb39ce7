"""The project's app with a task that the counting server sees."""

import os
import time
from typing import Any

from celery_semaphore import LimitedTask
from tests.support.counter import Counter

from .project import app


@app.task(
    base=LimitedTask,
    semaphore="visits",
    limit=3,
    on_saturated=os.environ.get("POLICY", "requeue"),
    name="visit",
    bind=True,
)
def visit(self: Any, seconds: float) -> None:
    with Counter.from_env().inside("visits", self.request.id):
        time.sleep(seconds)
