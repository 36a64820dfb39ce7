"""Install the store's schema, version 1."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations

from ..schema import InstallSchema


class Migration(migrations.Migration):  # type: ignore[misc]
    dependencies: ClassVar = [("celery_semaphore", "0001_initial")]
    operations: ClassVar = [InstallSchema(version=1)]
