"""HeldPermits: keep the permits that this process holds outside tasks, renew them, and see that they are released."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from .announcer import Announcer
from .asker import asker_of
from .at_exit import flush_at_exit
from .claim import Claim
from .events import Event, PermitLostEvent, PermitRestoredEvent
from .lease import LeaseKeeper
from .outage import outage_of
from .permit import Permit
from .releaser import Releaser
from .store import Store
from .ticket import Ticket

logger = logging.getLogger(__name__)

OnLost = Callable[[Permit], object]
MOST_KEPT = 1000  # releases that are repeated in an outage that is longer than a lease


class HeldPermits:
    """Keeps the permits of one process in one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._checked = False
        # Changed by atomic operations, as in the keeper.
        self._held: dict[str, OnLost] = {}
        announce = Announcer()
        announce.subscribe(self._happened)
        self._keeper = LeaseKeeper(store, announce, self._reap)
        self._releaser = Releaser(
            store,
            handed_on=lambda handed: asker_of(store).tell(handed.granted),
            keeps=MOST_KEPT,
        )

    @property
    def ready(self) -> Callable[[], None] | None:
        """What must be called before an acquire, if anything."""
        return None if self._checked else self.check

    def check(self) -> None:
        """Check once that the store can keep permits; raise what its ``check`` raises."""
        if not self._checked:
            for warning in self._store.check():
                logger.warning(warning)
            self._checked = True

    def add(
        self,
        permit: Permit,
        since: float,
        tell_lost: OnLost | None,
        gone: Callable[[], bool] | None = None,
    ) -> None:
        """Renew a permit from now on, until its holder is ``gone``; ``since`` is the monotonic time before its acquire.

        The thread that renews all permits calls ``tell_lost`` if it is lost, so that must not block.
        """
        self._held[permit.holder] = tell_lost or _ignore
        self._keeper.add(permit, since, gone and partial(self._forget, permit.holder, gone))
        self._keeper.start()

    def take(self, holder: str) -> bool:
        """Renew the permit of this holder no more; return whether this process held it."""
        self._keeper.discard(holder)
        return self._held.pop(holder, None) is not None

    def has(self, permit: Permit) -> bool:
        return permit.holder in self._held

    def release_later(self, name: str | Ticket, claims: Sequence[Claim]) -> None:
        """Release in the background, also after an outage; of one that is longer than a lease, the first thousand."""
        self._releaser.release(name, claims)
        try:
            self._releaser.start()
        except RuntimeError as error:  # this process ends, or may start no thread
            logger.warning("%s was not released, its lease ends: %r", name, error)

    def flush(self, timeout: float) -> None:
        """Make the releases that are queued, for ``timeout`` seconds at most, and no later ones."""
        self._releaser.flush(timeout)

    def close(self) -> None:
        """Renew and release nothing any more."""
        self._keeper.stop()
        self._releaser.close(0.0)

    def _reap(self) -> None:
        self._store.reap()
        outage_of(self._store).answered()

    def _forget(self, holder: str, gone: Callable[[], bool]) -> bool:
        """Return whether this holder is gone; forget it then, as the keeper does."""
        if is_gone := gone():
            self._held.pop(holder, None)
        return is_gone

    def _happened(self, event: Event) -> None:
        match event:
            case PermitLostEvent(permit, reason) if tell_lost := self._held.get(permit.holder):
                logger.error("%s lost its permit: %s", permit.holder, reason)
                tell_lost(permit)
            case PermitRestoredEvent(permit):
                logger.warning("%s: the store forgot its permit and took it back", permit.holder)


def in_a_thread(on_lost: OnLost | None) -> OnLost | None:
    """Return what calls ``on_lost`` in a thread of its own.

    A callback that hangs must not delay other callbacks, which have to stop work. There are at most as many threads
    as lost permits.
    """
    return None if on_lost is None else partial(_call, on_lost)


def _call(on_lost: OnLost, permit: Permit) -> None:
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


@flush_at_exit
def _flush(until: float) -> None:
    """Make the releases of all stores that are queued: else an interrupted program would leave them to the lease."""
    for held_permits in list(by_store.values()):
        held_permits.flush(max(0.0, until - time.monotonic()))
