"""Configure the app that is named in INSTALLED_APPS."""

from __future__ import annotations

from importlib import import_module

from django.apps import AppConfig


class SemaphoreConfig(AppConfig):  # type: ignore[misc]
    name = "celery_semaphore.django"
    label = "celery_semaphore"
    verbose_name = "Celery semaphores"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        import_module(f"{self.name}.checks")  # the import registers the checks
