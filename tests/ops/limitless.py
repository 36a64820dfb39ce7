"""A project that took its options from the first page and forgot the class."""

import os

from celery import Celery

app = Celery("shop", broker="memory://")
app.conf.semaphore_url = os.environ["STORE"]


@app.task(semaphore="api", limit=5)
def call_api() -> None: ...
