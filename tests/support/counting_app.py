"""Plain tasks, for the tests of the harness itself."""

import os
import time

from celery import Celery

from .counter import Counter

app = Celery("counting", broker=os.environ.get("CELERY_BROKER_URL"))
app.conf.broker_connection_retry_on_startup = True
app.conf.task_default_queue = "counting"


@app.task
def visit(seconds: float) -> None:
    with Counter.from_env().inside("visit", visit.request.id):
        time.sleep(seconds)
