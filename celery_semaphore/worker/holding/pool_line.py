"""Order the requests that wait for a free process: those with a grant go before others, up to a bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...task.celery_types import Consumer
from ..celery_internals import requests_for_pool

MOST_AHEAD = 10  # granted requests that go before one of the others


def goes_first(c: Consumer, hand_over: Callable[[], object]) -> None:
    """Give one request to the pool; if no process is free, queue it ahead of others, behind earlier granted ones.

    The first of the others goes next once ``MOST_AHEAD`` have gone before it. A worker that holds many waiting tasks is
    granted the next one whenever one ends, so a task without a limit would get no process until the last of them ran.
    """
    waiting = requests_for_pool(c)
    before = len(waiting)
    hand_over()
    if len(waiting) == before:
        return
    entry, place = waiting.pop(), before
    while place and _lets_pass(c, _request(waiting[place - 1])):
        place -= 1
    if place < before:
        first = _request(waiting[place])
        first.let_pass = getattr(first, "let_pass", 0) + 1
    waiting.insert(place, entry)


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


def _lets_pass(c: Consumer, request: Any) -> bool:
    return not _has_grant(c, request) and getattr(request, "let_pass", 0) < MOST_AHEAD


def _has_grant(c: Consumer, request: Any) -> bool:
    """Return whether a request came by a granted queue, which has its own channel, or was held until it was granted."""
    return request.message.channel is not c.task_consumer.channel or getattr(
        request, "granted", False
    )
