"""The semaphore: standard library only, knows neither Celery nor a driver."""
