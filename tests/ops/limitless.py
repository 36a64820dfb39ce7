"""A project that took its options from the first page and forgot the class."""

from celery import Celery

app = Celery("shop", broker="memory://")
app.conf.semaphore_url = "memory://"


@app.task(semaphore="api", limit=5)
def call_api() -> None: ...
