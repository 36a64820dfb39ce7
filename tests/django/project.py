"""The project's Celery app."""

import time

from celery import Celery

from celery_semaphore import LimitedTask

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")


@app.task(base=LimitedTask, semaphore="api", limit=2, name="call_api")
def call_api(seconds: float) -> None:
    time.sleep(seconds)


@app.task(base=LimitedTask, semaphore="disk", limit=1, on_saturated="park", name="copy_disk")
def copy_disk(seconds: float) -> None:
    time.sleep(seconds)


@app.task(base=LimitedTask, semaphore="export", key="{tenant}", limit=1, name="export")
def export(tenant: str, seconds: float = 0) -> None:
    time.sleep(seconds)
