"""Define two tasks that call the same service; they differ in one line."""

import http.client
import os
from typing import Any

from celery import Celery

from celery_semaphore import LimitedTask

app = Celery("demo", broker=os.environ["DEMO_BROKER"])
app.conf.update(
    semaphore_lease=5,  # how long a dead worker's permits stay away; 30 in real life
    task_ignore_result=True,
    task_acks_late=True,  # the messages of a worker that dies are delivered again
    task_reject_on_worker_lost=True,
    broker_connection_retry_on_startup=True,
    # kombu gives a dead worker's messages to others after this time, when a worker looks for them. Real
    # projects have longer tasks and no audience: an hour, and a look every 100 seconds.
    broker_transport_options={
        "visibility_timeout": 10,
        "unacked_restore_interval": 1,
        "unacked_restore_throttle": 1,
    },
)


class Rejected(Exception):
    """Raised if the service has too many callers."""


@app.task(name="plain", bind=True)
def plain(self: Any) -> None:
    call_the_service(self.request)


@app.task(name="limited", bind=True, base=LimitedTask, semaphore="api", limit=5)
def limited(self: Any) -> None:
    call_the_service(self.request)


def call_the_service(request: Any) -> None:
    service = http.client.HTTPConnection(os.environ["DEMO_SERVICE"], timeout=10)
    service.request("GET", f"/call/{request.id}/{request.hostname}")
    if service.getresponse().status != http.HTTPStatus.OK:
        raise Rejected
    service.close()
