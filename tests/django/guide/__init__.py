"""A Django project made as Celery's guide says, all of whose tasks may be limited."""

from .celery import app as celery_app

__all__ = ["celery_app"]
