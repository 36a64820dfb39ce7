"""The project's Celery app, with a limit whose key is asked of the database."""

from celery import Celery
from django.conf import settings

from celery_semaphore import LimitedTask

settings.DATABASES["permits"]["OPTIONS"].pop(
    "pool", None
)  # it would replace a connection that is closed

app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")


def seven() -> str:
    from django.db import connections

    with connections["permits"].cursor() as cursor:
        cursor.execute("SELECT '7'")
        key: str = cursor.fetchone()[0]
    return key


@app.task(base=LimitedTask, semaphore="asked", key=seven, limit=1, name="ask")
def ask() -> str:
    return "ran"
