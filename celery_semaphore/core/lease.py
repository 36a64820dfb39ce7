"""LeaseKeeper: renew all permits of a process in one batch, by one thread."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..errors import StoreUnavailable
from .announcer import Announcer
from .background_thread import BackgroundThread
from .events import Loss, PermitLostEvent, PermitRestoredEvent
from .permit import Permit, Renewal, Renewals
from .renewal import renewing
from .store import Store

logger = logging.getLogger(__name__)

BEATS = 3  # renewals per lease
LOST_AFTER = 0.9  # part of a lease without a renewal after which a permit counts as lost
RETRY_DELAY_S = 1.0  # between two attempts while the store fails


@dataclass(slots=True)
class _Kept:
    permit: Permit
    confirmed: float  # monotonic time before the last successful renewal or the acquire
    lease: float  # for how long that was; the store's lease may change since
    gone: Callable[[], bool] | None  # whether its process or event loop has ended
    lost: bool = False
    missed: float | None = None  # monotonic time when the store first did not know it


class LeaseKeeper:
    """Renews the permits given to it, and announces those that are lost.

    It fails in the safe direction. A permit that could not be renewed for almost a lease, by this process's monotonic
    clock, is announced as lost although the store may still have it. The keeper still tries to renew it, since its
    holder may be the only one. A permit that the store calls lost is renewed no more. Nor is a permit of a process that
    has ended, as the end of its task may never be reported. A keeper that did not run for a whole lease (a paused
    process) finds out at the next renewal that its permits are lost.
    """

    def __init__(
        self,
        store: Store,
        announce: Announcer,
        also: Callable[[], object] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Call ``also`` after each renewal: it reaps where no other thread does, or declares a worker's limits."""
        self._store = store
        self._announce = announce
        self._also = also
        self._clock = clock
        # Changed by atomic operations, without a lock: a signal handler that sleeps (a soft shutdown) while its thread
        # had the lock would stop all renewals.
        self._kept: dict[str, _Kept] = {}
        self._stopped = threading.Event()
        self._thread = BackgroundThread(
            "celery-semaphore-leases", self._wait_then_tick, self._stopped.is_set
        )
        self._beaten = self._due = (
            clock()
        )  # when all were renewed last, and when they must be again
        self._warned = False  # whether the current outage was logged

    def start(self) -> None:
        """Start the thread; once is enough."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, which may call this itself; the remaining permits are no longer renewed."""
        self._stopped.set()
        self._thread.join(self._store.lease)

    def add(
        self,
        permit: Permit,
        since: float | None = None,
        gone: Callable[[], bool] | None = None,
    ) -> None:
        """Renew this permit from now on, until its process or its event loop is ``gone``.

        ``since`` is the monotonic time before it was acquired.
        """
        confirmed = self._clock() if since is None else since
        lasts = (
            permit.expires_at - permit.acquired_at
        )  # the process that acquired it may know of a newer lease
        lease = lasts if 0 < lasts < self._store.lease else self._store.lease
        self._kept.setdefault(permit.holder, _Kept(permit, confirmed, lease, gone))

    def discard(self, holder: str) -> None:
        """Stop renewing; a renewal that has begun may still end after this call."""
        self._kept.pop(holder, None)

    def tick(self) -> None:
        """Renew if it is time, and announce lost permits."""
        if self._clock() >= min(self._due, self._beaten + self._shortest_lease() / BEATS):
            self._beaten = self._clock()
            self._due = self._beaten + self._beat()
        for kept in list(self._kept.values()):
            if kept.missed is not None and self._clock() - kept.missed >= RETRY_DELAY_S:
                self._give_up(kept)
            elif self._is_overdue(kept):
                kept.lost = True
                reason = f"not renewed for {self._clock() - kept.confirmed:.1f} s"
                self._announce(PermitLostEvent(kept.permit, reason, Loss.NOT_RENEWED))

    def _beat(self) -> float:
        """Renew all permits; return the seconds until the next renewal."""
        try:
            with renewing():
                all_answered = self._renew()
                self._do_the_rest()
        except StoreUnavailable as error:
            self._warn(error)
            return self._soon()
        if self._warned and self._kept:  # without a permit the store was not asked
            logger.warning("the store answers again, permits are renewed")
            self._warned = False
        return self._store.lease / BEATS if all_answered else self._soon()

    def _shortest_lease(self) -> float:
        """Return the shortest lease of all permits: the store's, and the one that each was renewed for last."""
        return min([self._store.lease, *(kept.lease for kept in self._kept.copy().values())])

    def _soon(self) -> float:
        """Return a delay short enough to fall into the grace of a store that comes back without its data."""
        return min(RETRY_DELAY_S, self._store.lease / 10)

    def _do_the_rest(self) -> None:
        try:
            self._also()
        except StoreUnavailable:
            raise
        except Exception:
            logger.exception(
                "overdue permits could not be ended, or limits could not be declared; permits are renewed all the same"
            )

    def _warn(self, error: StoreUnavailable) -> None:
        """Log a failure once per outage, and only if there are permits to lose."""
        if self._kept and not self._warned:
            self._warned = True
            logger.warning(
                "permits (%d) cannot be renewed, retrying until the store answers: %s",
                len(self._kept),
                error,
            )

    def _renew(self) -> bool:
        """Renew all permits; return whether each had an answer."""
        for holder, each in self._kept.copy().items():
            if each.gone is not None and each.gone():
                self.discard(holder)
        kept = {name: each for name, each in self._kept.copy().items() if each.missed is None}
        before, lease = self._clock(), self._store.lease
        renewals = self._answers([each.permit for each in kept.values()])
        for holder, renewal in renewals.items():
            self._take(kept[holder], renewal, before, min(lease, self._store.lease))
        return len(renewals) == len(kept)

    def _answers(self, permits: Sequence[Permit]) -> Renewals:
        """Renew all at once; after an error renew in halves, so that one bad permit costs no other its answer."""
        try:
            return self._store.renew(permits)
        except StoreUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 - any error may concern one permit only
            if len(permits) <= 1:
                logger.warning("a permit cannot be renewed, retrying: %r", error)
                return {}
            middle = len(permits) // 2
            return self._answers(permits[:middle]) | self._answers(permits[middle:])

    def _take(self, kept: _Kept, renewal: Renewal, before: float, lease: float) -> None:
        if renewal is not Renewal.LOST:
            kept.confirmed, kept.lease, kept.lost = before, lease, False
            if renewal is Renewal.RESTORED:
                self._announce(PermitRestoredEvent(kept.permit))
            return
        # It does not count as lost yet: its own process may have released it, with the note still on its way.
        kept.missed = self._clock()

    def _give_up(self, kept: _Kept) -> None:
        current = self._kept.pop(kept.permit.holder, None)
        if current is not None and not current.lost:
            reason = "its lease ended in the store, or it was removed there"
            self._announce(PermitLostEvent(kept.permit, reason, Loss.ENDED))

    def _is_overdue(self, kept: _Kept) -> bool:
        return not kept.lost and self._clock() - kept.confirmed > LOST_AFTER * kept.lease

    def _wait_then_tick(self) -> None:
        if not self._stopped.wait(min(RETRY_DELAY_S / 2, self._shortest_lease() / 12)):
            self.tick()
