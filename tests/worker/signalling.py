"""The app under test, with receivers of its signals for one task."""

from __future__ import annotations

import os
from typing import Any

from celery.utils.log import get_logger

import celery_semaphore

from .app import app, call

__all__ = ["app"]

logger = get_logger(__name__)
MAIN = os.getpid()


def receiver(name: str) -> Any:
    def heard(sender: Any, task_id: str, **fields: Any) -> None:
        where = "main" if os.getpid() == MAIN else "child"
        known = sorted(field for field in fields if field != "signal")
        logger.warning("heard %s of %s[%s] in %s: %s", name, sender.name, task_id, where, known)

    return heard


for name in ("permit_acquired", "permit_released", "permit_lost", "task_saturated"):
    signal = getattr(celery_semaphore, name)
    signal.connect(receiver(name), sender=call, weak=False)
