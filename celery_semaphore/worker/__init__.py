"""The code that runs inside a Celery worker."""
