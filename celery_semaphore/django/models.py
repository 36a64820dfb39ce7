"""Define a model without a table, which the admin needs for permissions and a history."""

from __future__ import annotations

from django.db import models
from django.db.models.manager import EmptyManager

from ..core.key import names_of
from .text import shown


class Semaphore(models.Model):  # type: ignore[misc]
    """Represents a semaphore, or one key of it. It lives in the store: the database keeps nothing of it."""

    resource = models.TextField(primary_key=True)  # its name in the store

    objects = EmptyManager(None)  # without a table, queries such as dumpdata's would fail

    class Meta:
        managed = False
        base_manager_name = "objects"
        verbose_name = "semaphore"
        default_permissions = ("view",)
        permissions = (
            ("limit_semaphore", "Can set a semaphore's limit"),
            ("pause_semaphore", "Can pause and resume a semaphore"),
            ("take_away_semaphore", "Can take a permit away"),
            ("promote_semaphore", "Can promote a waiting task"),
            ("drop_semaphore", "Can drop a waiting task"),
        )

    def __str__(self) -> str:
        semaphore, key = names_of(self.resource)
        return shown(semaphore) if key is None else f"{shown(semaphore)} [{shown(key)}]"
