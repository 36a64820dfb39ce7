"""Create the model that permissions and the history need; it has no table."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):  # type: ignore[misc]
    initial = True
    dependencies: ClassVar[list[tuple[str, str]]] = []
    operations: ClassVar[list[object]] = [
        migrations.CreateModel(
            name="Semaphore",
            fields=[("resource", models.TextField(primary_key=True, serialize=False))],
            options={
                "verbose_name": "semaphore",
                "managed": False,
                "base_manager_name": "objects",
                "default_permissions": ("view",),
                "permissions": (
                    ("limit_semaphore", "Can set a semaphore's limit"),
                    ("pause_semaphore", "Can pause and resume a semaphore"),
                    ("take_away_semaphore", "Can take a permit away"),
                    ("promote_semaphore", "Can promote a waiting task"),
                    ("drop_semaphore", "Can drop a waiting task"),
                ),
            },
        )
    ]
