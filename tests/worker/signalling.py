"""The app under test, with receivers of its signals for one task."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from celery.signals import task_revoked
from celery.utils.log import get_logger

import celery_semaphore
from tests.support.process import wait_until

from .app import app, call

__all__ = ["app"]

logger = get_logger(__name__)
MAIN = os.getpid()
HANGS = os.environ.get("RECEIVER_HANGS")  # whose receiver hangs, until there is this file
FREED = Path(os.environ.get("RECEIVER_FREED", "/"))


def receiver(name: str) -> Any:
    def heard(sender: Any, task_id: str, **fields: Any) -> None:
        where = "main" if os.getpid() == MAIN else "child"
        known = sorted(field for field in fields if field != "signal")
        if name == HANGS:
            wait_until(FREED.exists, 120, "the test lets go of a receiver that hangs")
        logger.warning("heard %s of %s[%s] in %s: %s", name, sender.name, task_id, where, known)

    return heard


for name in ("permit_acquired", "permit_released", "permit_lost", "task_saturated"):
    signal = getattr(celery_semaphore, name)
    signal.connect(receiver(name), sender=call, weak=False)


@task_revoked.connect
def hear_revoked(sender: Any, request: Any, **_: Any) -> None:
    where = "main" if os.getpid() == MAIN else "child"
    if HANGS == "task_revoked":
        wait_until(FREED.exists, 120, "the test lets go of a receiver that hangs")
    text = f"heard task_revoked of {sender.name}[{request.id}] in {where}: args {request.args}"
    logger.warning(text)
