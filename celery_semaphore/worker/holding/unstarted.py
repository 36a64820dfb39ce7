"""Know which granted waits have not started yet: their grants are prolonged.

Most wait for a process of this worker. The message of one may be on its way to another worker, see ``busy_pool``.
"""

from __future__ import annotations

import time

from celery.worker import state

from ...core.session import GRANT_S, HeldWait
from ..protocols import HeldRequest

# The wait, its fresh request, and the monotonic time. There is no request once the message was sent on.
Begun = tuple[HeldWait, HeldRequest | None, float]


class Unstarted:
    """Holds the waits that began. The loop adds and the session's thread reads, by atomic operations without a lock."""

    def __init__(self) -> None:
        self._begun: dict[str, Begun] = {}

    def __bool__(self) -> bool:
        return bool(self._begun)

    def add(self, wait: HeldWait, request: HeldRequest) -> None:
        """Prolong the grant of this wait while its request waits for a process."""
        self._begun[wait.ticket.nonce] = wait, request, time.monotonic()

    def sent_on(self, wait: HeldWait) -> None:
        """Prolong the grant of a wait for as long as a grant lasts: its message is sent to another worker."""
        self._begun[wait.ticket.nonce] = wait, None, time.monotonic()

    def is_any_sent_on(self) -> bool:
        """Return whether a message was sent on, and its grant is neither taken up nor over as far as is known."""
        return any(request is None for _, request, _ in self.now().values())

    def now(self) -> dict[str, Begun]:
        """Return the waits that began and have neither got a permit nor ended since."""
        begun = self._begun.copy()
        over = [nonce for nonce, each in begun.items() if _is_over(each)]
        for nonce in over:
            self.forget(nonce, begun.pop(nonce))
        return begun

    def forget(self, nonce: str, begun: Begun) -> None:
        """Forget a wait that began, unless another message of it has begun meanwhile."""
        if self._begun.get(nonce) is begun:
            self._begun.pop(nonce, None)

    def is_stuck(self) -> bool:
        """Return whether a granted request has waited for a process for longer than a grant lasts."""
        long_ago = time.monotonic() - GRANT_S
        return any(
            since < long_ago and request is not None and request.time_start is None
            for _, request, since in self.now().values()
        )


def _is_over(begun: Begun) -> bool:
    _, request, since = begun
    if request is None:
        return since < time.monotonic() - GRANT_S
    return not request.granted or request not in state.reserved_requests
