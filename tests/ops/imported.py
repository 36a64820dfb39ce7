"""Tasks that only the app's settings name."""

from celery import shared_task

from celery_semaphore import LimitedTask


@shared_task(base=LimitedTask, semaphore="imported", limit=3)
def imported() -> None: ...
