"""HeldPermits: keep the permits that this process holds outside tasks, renew them, and see that they are released."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence

from .announcer import Announcer
from .events import Event, PermitLostEvent, PermitRestoredEvent
from .lease import LeaseKeeper
from .permit import Claim, Permit
from .releaser import Releaser
from .store import Store
from .ticket import Ticket

logger = logging.getLogger(__name__)

OnLost = Callable[[Permit], object]


class HeldPermits:
    """Keeps the permits of one process in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checked = False
        # Changed by atomic operations, as in the keeper.
        self._held: dict[str, OnLost] = {}
        self._starting = threading.RLock()  # reentrant: a signal handler may acquire, too
        announce = Announcer()
        announce.subscribe(self._happened)
        self._keeper = LeaseKeeper(store, announce, store.reap)
        self._releaser = Releaser(store)

    def check(self) -> None:
        """Check once that the store can keep permits; raise what its ``check`` raises."""
        if not self._checked:
            for warning in self._store.check():
                logger.warning(warning)
            self._checked = True

    def add(self, permit: Permit, since: float, on_lost: OnLost | None) -> None:
        """Renew a permit from now on; ``since`` is the monotonic time before it was acquired."""
        self._held[permit.holder] = on_lost or _ignore
        self._keeper.add(permit, since)
        with self._starting:
            self._keeper.start()

    def take(self, holder: str) -> bool:
        """Renew the permit of this holder no more; return whether this process held it."""
        self._keeper.discard(holder)
        return self._held.pop(holder, None) is not None

    def has(self, permit: Permit) -> bool:
        return permit.holder in self._held

    def release_later(self, name: str | Ticket, claims: Sequence[Claim]) -> None:
        """Release in the background, for one lease at most."""
        self._releaser.release(name, claims)
        try:
            with self._starting:
                self._releaser.start()
        except RuntimeError as error:  # this process ends, or may start no thread
            logger.warning("%s was not released, its lease ends: %r", name, error)

    def close(self) -> None:
        """Renew and release nothing any more."""
        self._keeper.stop()
        self._releaser.close(0.0)

    def _happened(self, event: Event) -> None:
        match event:
            case PermitLostEvent(permit, reason) if on_lost := self._held.get(permit.holder):
                logger.error("%s lost its permit: %s", permit.holder, reason)
                _call(on_lost, permit)
            case PermitRestoredEvent(permit):
                logger.warning("%s: the store forgot its permit and took it back", permit.holder)


def _call(on_lost: OnLost, permit: Permit) -> None:
    """Call ``on_lost`` in a thread of its own.

    The calling thread renews all other permits, so it must not block. A callback that hangs must not delay other
    callbacks, which have to stop work. There are at most as many threads as lost permits.
    """
    if on_lost is not _ignore:
        threading.Thread(
            target=_logged, args=(on_lost, permit), name="celery-semaphore-on-lost", daemon=True
        ).start()


def _logged(on_lost: OnLost, permit: Permit) -> None:
    try:
        on_lost(permit)
    except Exception:
        logger.exception("on_lost failed for %s", permit.holder)


def _ignore(_: Permit) -> None:
    """Do nothing about a lost permit, which is logged anyway."""


by_store: dict[Store, HeldPermits] = {}
# A forked child has neither its parent's threads nor its permits.
os.register_at_fork(after_in_child=by_store.clear)


def held_permits_in(store: Store) -> HeldPermits:
    """Return the held permits of this process in a store, made when they are first needed."""
    return by_store.get(store) or by_store.setdefault(store, HeldPermits(store))
