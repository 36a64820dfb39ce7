"""Tasks with one limit or the other, of 1 each, and one with both."""

from __future__ import annotations

import json
import os

from celery import Celery

from celery_semaphore import Limit, LimitedTask
from tests.support.counter import Counter

app = Celery("sides", broker=os.environ["BROKER"], backend=os.environ.get("BACKEND"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    semaphore_url=os.environ["STORE"],
    semaphore_lease=float(os.environ["LEASE"]),
    **json.loads(os.environ["CONF"]),
)
counter = Counter(os.environ["COUNTER_ADDR"])
LEFT, RIGHT = Limit("left", 1), Limit("right", 1)


def work(self: LimitedTask) -> None:
    """Be inside for a moment."""
    with counter.inside("sides", self.request.id):
        counter.remain("sides", 0.02)


for name, limits in {"left": [LEFT], "right": [RIGHT], "two": [LEFT, RIGHT]}.items():
    app.task(name=name, base=LimitedTask, bind=True, semaphore=limits)(work)
