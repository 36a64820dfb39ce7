"""The line of requests for a free process: which go first, which of them were granted, and how many more may be.

Requests with a grant go before others, up to a bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery.worker import state

from ...core.session import HeldWait
from ...task.celery_types import Consumer
from ...task.protocols import KeptRequest
from ..celery_internals import requests_for_pool

MOST_AHEAD = 10  # granted requests that go before one of the others
LEAST_GRANTS = 16  # short tasks end faster than the next question tells of grants
Begun = tuple[HeldWait, KeptRequest, float]  # the wait, its fresh request, and the monotonic time


def goes_first(c: Consumer, hand_over: Callable[[], object]) -> None:
    """Give one request to the pool; if no process is free, queue it ahead of others, behind earlier granted ones.

    The first of the others goes next once ``MOST_AHEAD`` have gone before it. A worker that keeps many waiting tasks is
    granted the next one whenever one ends, so a task without a limit would get no process until the last of them ran.
    """
    waiting = requests_for_pool(c)
    before = len(waiting)
    hand_over()
    if len(waiting) <= before:
        return
    entry, at = waiting.pop(), before
    while at and _lets_pass(c, _request(waiting[at - 1])):
        at -= 1
    if at < before:
        first = _request(waiting[at])
        first.let_pass = getattr(first, "let_pass", 0) + 1
    waiting.insert(at, entry)


def waiting_by(c: Consumer, channel: Any) -> list[Any]:
    """Return the requests that came by this channel and that no process has yet, in order."""
    return [request for request in requests_in_line(c) if request.message.channel is channel]


def requests_in_line(c: Consumer) -> list[Any]:
    """Return the requests that no process has yet, in order."""
    return list(map(_request, requests_for_pool(c)))


def leaves(c: Consumer, request: object) -> None:
    """Take a request out of the line, so that no process gets it."""
    waiting = requests_for_pool(c)
    for at, entry in enumerate(waiting):
        if _request(entry) is request:
            del waiting[at]
            return


def _request(entry: Any) -> Any:
    return entry[1][0]


def _lets_pass(c: Consumer, request: Any) -> bool:
    return not _has_grant(c, request) and getattr(request, "let_pass", 0) < MOST_AHEAD


def _has_grant(c: Consumer, request: Any) -> bool:
    """Return whether a request came by a granted queue, which has its own channel, or was kept until it was granted."""
    return request.message.channel is not c.task_consumer.channel or getattr(
        request, "granted", False
    )


class Unstarted:
    """Has the waits that began. The loop adds and the session's thread reads, by atomic operations without a lock."""

    def __init__(self) -> None:
        self._begun: dict[str, Begun] = {}

    def __bool__(self) -> bool:
        return bool(self._begun)

    def add(self, wait: HeldWait, request: KeptRequest) -> None:
        """Prolong the grant of this wait while its request waits for a process."""
        self._begun[wait.ticket.nonce] = wait, request, time.monotonic()

    def now(self) -> dict[str, Begun]:
        """Return the waits that began and have neither got a permit nor ended since."""
        begun = self._begun.copy()
        over = [
            nonce
            for nonce, (_, request, _) in begun.items()
            if not request.granted or request not in state.reserved_requests
        ]
        for nonce in over:
            self.forget(nonce, begun.pop(nonce))
        return begun

    def forget(self, nonce: str, begun: Begun) -> None:
        """Forget a wait that began, unless another message of it has begun meanwhile."""
        if self._begun.get(nonce) is begun:
            self._begun.pop(nonce, None)

    def end_revoked(self) -> None:
        """End the tasks that were revoked or expired since, in the loop: their grants must not wait for a process."""
        for _, request, _ in self.now().values():
            if request.is_unstarted:
                request.revoked_in_line()

    def have_waited(self, seconds: float) -> bool:
        """Return whether a granted request has waited for a process for so long."""
        long_ago = time.monotonic() - seconds
        return any(
            since < long_ago and request.time_start is None
            for _, request, since in self.now().values()
        )


class Room:
    """Counts twice the processes of a pool, which may grow: each has a task to begin when it ends one."""

    def __init__(self, processes: Callable[[], int]) -> None:
        self._processes = processes
        self._was_full = False

    def size(self) -> int:
        """Return how many grants, which no process has taken up yet, the worker can use now."""
        return max(2 * self._processes(), LEAST_GRANTS)

    def opened(self, granted: int) -> bool:
        """Return whether half of it is free again, after an answer that left none: waits may have been passed over."""
        size = self.size()
        opened = self._was_full and granted <= size // 2
        self._was_full = granted >= size or (self._was_full and not opened)
        return opened
