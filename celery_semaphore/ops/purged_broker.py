"""Let ``celery purge`` say which tasks it leaves: parked ones lie in no queue.

Celery has no signal for a purge, so this wraps the function of its command, by click's attribute for it.
"""

from __future__ import annotations

import functools
from contextlib import closing
from typing import Any

import click
from celery.bin.purge import purge

from ..errors import SemaphoreError
from ..settings import Settings

NOTED = "semaphore_says_what_is_left"


def say_what_a_purge_leaves() -> None:
    """Wrap the command; once is enough."""
    erase = purge.callback
    if hasattr(erase, NOTED):
        return

    @functools.wraps(erase)
    def erase_then_say(*args: Any, **options: Any) -> Any:
        done = erase(*args, **options)
        ctx = click.get_current_context()
        if left := _left(ctx.obj.app):
            ctx.obj.echo(f"{left}.")
        return done

    setattr(erase_then_say, NOTED, True)
    purge.callback = erase_then_say


def _left(app: Any) -> str:
    try:
        settings = Settings.from_app(app)
        with closing(settings.open_store()) as store:
            return store.durability(settings.park_max_waiting).unpurged()
    except SemaphoreError:  # the app has no store, or it does not answer: the purge itself is done
        return ""
