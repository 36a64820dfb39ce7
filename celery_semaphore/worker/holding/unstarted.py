"""Know which granted requests still wait for a process: their grants are prolonged until one takes them."""

from __future__ import annotations

import time

from celery.worker import state

from ...core.session import GRANT_S, HeldWait
from ...task.protocols import HeldRequest

Begun = tuple[HeldWait, HeldRequest, float]  # the wait, its fresh request, and the monotonic time


class Unstarted:
    """Holds the waits that began. The loop adds and the session's thread reads, by atomic operations without a lock."""

    def __init__(self) -> None:
        self._begun: dict[str, Begun] = {}

    def __bool__(self) -> bool:
        return bool(self._begun)

    def add(self, wait: HeldWait, request: HeldRequest) -> None:
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

    def is_stuck(self) -> bool:
        """Return whether a granted request has waited for a process for longer than a grant lasts."""
        return self.have_waited(GRANT_S)

    def have_waited(self, seconds: float) -> bool:
        """Return whether a granted request has waited for a process for so long."""
        long_ago = time.monotonic() - seconds
        return any(
            since < long_ago and request.time_start is None
            for _, request, since in self.now().values()
        )
