"""An app that is deployed with one limit after the other: ``LIMIT`` is the one of this deployment.

``NIGHT`` is a file that exists while it is night.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from celery import Celery

from celery_semaphore import LimitedTask
from tests.support.counter import Counter

app = Celery("deployed", broker=os.environ["BROKER"], backend=os.environ.get("BACKEND"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    semaphore_url=os.environ["STORE"],
    semaphore_lease=float(os.environ["LEASE"]),
    **json.loads(os.environ["CONF"]),
)
counter = Counter(os.environ["COUNTER_ADDR"])


@app.task(
    name="order", base=LimitedTask, bind=True, semaphore="orders", limit=int(os.environ["LIMIT"])
)
def order(self: LimitedTask, seconds: float, resource: str) -> None:
    """Be inside for so long."""
    with counter.inside(resource, self.request.id):
        counter.remain(resource, seconds)


@app.task(
    name="nightly",
    base=LimitedTask,
    bind=True,
    semaphore="orders",
    limit=lambda resource: int(Path(os.environ["NIGHT"]).exists()),
)
def nightly(self: LimitedTask, resource: str) -> None:
    """Be inside, at night only."""
    with counter.inside(resource, self.request.id):
        pass


@app.task(
    name="tenant order",
    base=LimitedTask,
    semaphore="tenants",
    limit=int(os.environ["LIMIT"]),
    key="{tenant}",
)
def tenant_order(tenant: str) -> None:
    """Run for one of many tenants."""
