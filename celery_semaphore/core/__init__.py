"""The semaphore itself, which uses the standard library only, and neither Celery nor a driver."""
