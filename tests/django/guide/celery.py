"""The project's Celery app."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.django.guide.settings")
TASK_CLASS = os.environ.get("TASK_CLASS")

app = Celery("guide", task_cls=TASK_CLASS) if TASK_CLASS else Celery("guide")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()
