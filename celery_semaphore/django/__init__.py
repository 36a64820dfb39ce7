"""Integrate semaphores into a Django project: add ``"celery_semaphore.django"`` to INSTALLED_APPS."""
