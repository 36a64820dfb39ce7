"""End the grants of messages that Celery discards before it makes a request of them.

These are the messages of unregistered tasks, those that cannot be decoded, and those that are no valid task. Celery
rejects or acknowledges them, and calls a method of its consumer, which has no signal that names each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ...task.celery_types import Consumer
from ...task.protocols import TaskMessage
from ..limiter import Limiter
from ..messages.ticket_header import TICKET, grant_of


def watch_discards(c: Consumer, limiter: Limiter) -> None:
    """Wrap what Celery calls; do it before its consumer and its strategies take these methods."""
    c.on_decode_error = partial(_end_after, limiter, 0, c.on_decode_error)
    c.on_unknown_task = partial(_end_after, limiter, 1, c.on_unknown_task)
    c.on_invalid_task = partial(_end_after, limiter, 1, c.on_invalid_task)


def _end_after(limiter: Limiter, at: int, discard: Callable[..., object], *call: Any) -> None:
    """Discard a message, which is the argument number ``at``, then give the permit that is kept for it to the next."""
    try:
        discard(*call)
    finally:
        message: TaskMessage = call[at]
        headers = message.headers or {}
        if grant := grant_of(headers.get(TICKET), str(headers.get("id"))):
            limiter.process.releaser.release(*grant)
