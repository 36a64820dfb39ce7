"""Ledger: the permits of one worker, from the moment they are asked for until they are given back.

How it fails, and what then: a process that dies after *asked* leaves its entry, which is released
once the process is gone; a worker that dies takes the ledger along, and the leases end; a release
that is not answered is repeated until the lease must have ended anyway.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from ..core.events import Announcer, PermitReleased
from ..core.lease import LeaseKeeper
from ..core.permit import Claim, Permit
from .releaser import Releaser


class Watcher(Protocol):
    """Whoever must act when its delivery gets or loses its permit."""

    def permit_held(self) -> None:
        """The permit is noted: the message may be acknowledged."""

    def permit_lost(self, reason: str) -> None:
        """The lease ended while the task runs."""


@dataclass(slots=True)
class Delivery:
    """One delivery that asked for a permit."""

    holder: str
    claims: tuple[Claim, ...]
    permit: Permit | None = None


class Ledger:
    """Knows what each delivery asked for and holds; has it renewed, and released at its end."""

    def __init__(self, keeper: LeaseKeeper, releaser: Releaser, announce: Announcer) -> None:
        self._keeper = keeper
        self._releaser = releaser
        self._announce = announce
        self._deliveries: dict[str, Delivery] = {}
        self._watchers: dict[str, Watcher] = {}
        self._lock = threading.Lock()

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        """The store will be asked: release it at the end, whatever the answer was."""
        with self._lock:
            self._deliveries[holder] = Delivery(holder, tuple(claims))

    def held(self, permit: Permit, since: float) -> None:
        """The store said yes: renew from now on."""
        with self._lock:
            delivery = self._deliveries.get(permit.holder)
            if delivery is None:  # already ended
                return
            delivery.permit = permit = replace(permit, claims=delivery.claims)
            watcher = self._watchers.get(permit.holder)
        self._keeper.add(permit, since)
        if watcher is not None:
            watcher.permit_held()

    def holds(self, holder: str) -> bool:
        """Whether this delivery has its permit, as far as was noted."""
        with self._lock:
            delivery = self._deliveries.get(holder)
            return delivery is not None and delivery.permit is not None

    def watch(self, holder: str, watcher: Watcher) -> None:
        """Tell the watcher from now on, and at once if the permit is noted already."""
        with self._lock:
            self._watchers[holder] = watcher
        if self.holds(holder):
            watcher.permit_held()

    def lost(self, permit: Permit, reason: str) -> None:
        """The keeper says that this permit is lost."""
        with self._lock:
            watcher = self._watchers.get(permit.holder)
        if watcher is not None:
            watcher.permit_lost(reason)

    def refused(self, holder: str) -> None:
        """The store said no for certain: there is nothing to release."""
        with self._lock:
            self._watchers.pop(holder, None)
            self._deliveries.pop(holder, None)

    def ended(self, holder: str, gone: Callable[[], bool] | None = None) -> None:
        """Release this delivery's permit: at once, or once its process is ``gone``.

        May be called more than once; a process that lives on and reports its end is not waited for.
        """
        with self._lock:
            if gone is None:
                self._watchers.pop(holder, None)
        if gone is None:
            self._give_back(holder)
        else:
            self._releaser.when(
                gone, lambda: self._give_back(holder), lambda: not self._open(holder)
            )

    def close(self, timeout: float) -> None:
        """Give back what can be given back in so many seconds; the leases cover the rest."""
        self._releaser.close(timeout)
        self._keeper.stop()

    def _open(self, holder: str) -> bool:
        with self._lock:
            return holder in self._deliveries or holder in self._watchers

    def _give_back(self, holder: str) -> None:
        with self._lock:
            self._watchers.pop(holder, None)
            delivery = self._deliveries.pop(holder, None)
        if delivery is None:
            return
        self._keeper.discard(holder)
        self._releaser.release(holder, delivery.claims)
        if delivery.permit is not None:
            self._announce(
                PermitReleased(delivery.permit, time.time() - delivery.permit.acquired_at)
            )
