"""Order the requests that wait for a free process: those with a grant go before all others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import takewhile
from typing import Any

from ..celery_internals import requests_for_pool
from ..celery_types import Consumer
from ..protocols import HeldRequest


def goes_first(c: Consumer, hand_over: Callable[[], object]) -> None:
    """Give one request to the pool; if no process is free, queue it ahead of all but earlier granted ones."""
    waiting = requests_for_pool(c)
    before = len(waiting)
    hand_over()
    if len(waiting) > before:
        granted = takewhile(lambda each: _has_grant(c, _request(each)), waiting)
        waiting.insert(sum(1 for _ in granted), waiting.pop())


def waiting_by(c: Consumer, channel: Any) -> list[Any]:
    """Return the requests that came by this channel and that no process has yet, in order."""
    line = map(_request, requests_for_pool(c))
    return [request for request in line if request.message.channel is channel]


def leaves(c: Consumer, request: object) -> None:
    """Take a request out of the line, so that no process gets it."""
    waiting = requests_for_pool(c)
    for place, entry in enumerate(waiting):
        if _request(entry) is request:
            del waiting[place]
            return


def _request(entry: Any) -> Any:
    return entry[1][0]


def _has_grant(c: Consumer, request: HeldRequest) -> bool:
    """Return whether a request came by a granted queue, which has its own channel, or was held until it was granted."""
    return request.message.channel is not c.task_consumer.channel or getattr(
        request, "granted", False
    )
