"""Where the admin's pages are, and what its log says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.key import resource_name

Login = Callable[..., Any]

LIST = "/admin/celery_semaphore/semaphore/"
API = Claim("api", None, 2)


def address(semaphore: str, key: str | None = None, do: str | None = None) -> str:
    return page_of(resource_name(semaphore, key), do)


def page_of(resource: str, do: str | None = None) -> str:
    """As `address`, of a name in the store."""
    from django.contrib.admin.utils import quote

    page = f"{LIST}{quote(resource)}/"
    return f"{page}do/{do}/" if do else f"{page}change/"


def logged() -> list[str]:
    from django.contrib.admin.models import LogEntry

    return [
        f"{entry.object_id}: {entry.change_message}" for entry in LogEntry.objects.order_by("pk")
    ]
