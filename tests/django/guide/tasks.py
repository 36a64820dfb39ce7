"""The project's tasks."""

from celery import shared_task

from celery_semaphore import LimitedTask


@shared_task(name="guide.plain")
def plain() -> str:
    return type(plain).__mro__[1].__name__


@shared_task(base=LimitedTask, name="guide.limited", semaphore="guide", limit=1)
def limited() -> str:
    return "limited"
