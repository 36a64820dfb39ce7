"""Ledger: the permits of one worker, from the note that one will be acquired until its release.

How it fails: if a process dies after *asked*, its entry stays and is released once the process is gone. If the worker
dies, the ledger is lost, and the leases expire. A release without an answer is repeated until the lease must have
expired.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from ...core.announcer import Announcer
from ...core.claim import Claim
from ...core.events import PermitAcquiredEvent, PermitReleasedEvent
from ...core.lease import LeaseKeeper
from ...core.message_id import MessageId
from ...core.permit import Permit
from ...core.releaser import Releaser
from ...core.store import HandedOn
from ...task.protocols import BoundTask
from .delivery import Delivery, Watcher
from .process import is_gone


class Ledger:
    """Records what each delivery asked for and holds; has it renewed, and released at its end.

    It is changed by atomic operations, without a lock. A signal handler may interrupt any step here, to end tasks (a
    cold shutdown) or to sleep (a soft one), and other threads must go on.
    """

    def __init__(
        self,
        keeper: LeaseKeeper,
        releaser: Releaser,
        announce: Announcer,
        handed_on: Callable[[HandedOn], None],
    ) -> None:
        self._keeper = keeper
        self._releaser = releaser
        self._announce = announce
        self._handed_on = handed_on
        self._deliveries: dict[str, Delivery] = {}
        self._watchers: dict[str, Watcher] = {}

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        """Record that the store will be asked: release at the end, whatever the answer is.

        It may be asked again for other claims (A19), after an answer that acquired nothing.
        """
        # A signal handler that interrupts this before its last line may enter the next two notes as well, of other
        # claims and of their permit: then the claims are the first ones again, and the permit lasts until its lease
        # ends, for it is released on these. The note of a permit would have to name its claims, for each task.
        delivery = self._deliveries.setdefault(holder, Delivery(holder, tuple(claims)))
        if delivery.permit is None:
            delivery.claims = tuple(claims)

    def held(self, acquired: PermitAcquiredEvent, since: float, pid: int | None = None) -> None:
        """Record a permit, and renew it from now on, while the process that holds it lives."""
        noted = acquired.permit
        delivery = self._deliveries.get(noted.holder)
        if delivery is None:  # already ended
            return
        delivery.since, delivery.name = since, acquired.task
        delivery.permit = permit = Permit(
            noted.holder,
            noted.token,
            delivery.claims,
            noted.acquired_at,
            noted.expires_at,
            noted.epoch,
        )
        gone = None if pid is None else partial(is_gone, pid)
        self._keeper.add(permit, since, gone)
        if permit.holder not in self._deliveries:  # it ended meanwhile: do not renew it for ever
            self._keeper.discard(permit.holder)
        self._tell(permit.holder)
        if delivery.unannounced.take():
            self._announce(
                PermitAcquiredEvent(permit, acquired.task, acquired.waited, acquired.took)
            )

    def over(self, holder: str) -> None:
        """Record that the body has ended; its process is about to report the end of the task."""
        if delivery := self._deliveries.get(holder):
            delivery.over = True

    def is_over(self, holder: str) -> bool:
        """Return whether the end of the body was noted."""
        delivery = self._deliveries.get(holder)
        return delivery is not None and delivery.over

    def released(self, holder: str, handed: HandedOn) -> None:
        """Record that the process has released the permit; it will report the end of the task."""
        if delivery := self._deliveries.get(holder):
            delivery.released = True
        self._keeper.discard(holder)
        self._handed_on(handed)

    def unreleased(self, holder: str) -> None:
        """Stop renewing a permit that its process could not release.

        The permit is released when the process reports the end of the task. There may be no report: when Celery
        flushes its pool (a shutdown, a lost connection to the broker), it forgets each task that it has sent to a
        process without having read its acceptance. These tasks still run, and their permits end with the lease.
        """
        self._keeper.discard(holder)

    def watch(self, holder: str, watcher: Watcher) -> None:
        """Notify the watcher of the permit; at once if it is noted already."""
        self._watchers[holder] = watcher
        self._tell(holder)

    def has(self, holder: str) -> bool:
        """Return whether this delivery is known and its end was not noted."""
        return holder in self._deliveries or holder in self._watchers

    def holds(self, holder: str) -> bool:
        """Return whether this delivery has its permit, as far as was noted."""
        delivery = self._deliveries.get(holder)
        return delivery is not None and delivery.permit is not None

    def permits(self) -> list[Delivery]:
        """Return the deliveries that have their permits, as far as was noted, oldest first."""
        noted = [each for each in self._deliveries.copy().values() if each.permit]
        return sorted(noted, key=lambda each: each.since)

    def task_of(self, holder: str) -> BoundTask | None:
        """Return the task of this holder; None if it is not known."""
        delivery = self._deliveries.get(holder)
        return None if delivery is None else delivery.task

    def name_of(self, holder: str) -> str:
        """Return the name of this holder's task; empty if it is not known."""
        delivery = self._deliveries.get(holder)
        if delivery is None:
            return ""
        if not delivery.name and delivery.task is not None:  # it was too long for the note
            return delivery.task.name
        return delivery.name

    def lost(self, permit: Permit, reason: str) -> None:
        """Notify the watcher that this permit is lost."""
        if (watcher := self._watchers.get(permit.holder)) is not None:
            watcher.permit_lost(reason)

    def refused(self, holder: str) -> None:
        """Forget a delivery that the store refused, as there is nothing to release."""
        self._taken(holder)

    def ended(
        self,
        holder: str,
        gone: Callable[[], bool] | None = None,
        message_id: MessageId | None = None,
        then: Callable[[], None] | None = None,
    ) -> None:
        """Release this delivery's permit: at once, or once its process is ``gone``.

        Give the ``message_id`` of its message if this was the end of its task, so that no copy runs. After the release
        ``then`` is called, in the releaser's thread.

        It may be called more than once: a process that reports its end after all is waited for no more. Each ``then``
        is called, whichever of the calls releases.
        """
        give_back = partial(self._give_back, holder, message_id, then)
        if gone is None:
            give_back()
        else:
            self._releaser.when(lambda: gone() or not self.has(holder), give_back)

    def close(self, timeout: float) -> None:
        """Release what can be released within ``timeout`` seconds; the other permits end with their leases."""
        self._releaser.close(timeout)
        self._keeper.stop()

    def _tell(self, holder: str) -> None:
        """Notify the watcher of the permit, once both are known.

        Two threads may do it twice: each records its own part before it looks for the other one.
        """
        delivery, watcher = self._deliveries.get(holder), self._watchers.get(holder)
        if delivery is None or delivery.permit is None or delivery.told or watcher is None:
            return
        delivery.told, delivery.task = True, watcher.task
        watcher.permit_held(delivery.since)

    def _taken(self, holder: str) -> Delivery | None:
        self._watchers.pop(holder, None)
        delivery = self._deliveries.pop(holder, None)
        self._keeper.discard(holder)
        return delivery

    def _give_back(
        self, holder: str, message_id: MessageId | None, then: Callable[[], None] | None
    ) -> None:
        delivery = self._taken(holder)
        if delivery is not None and not delivery.released:
            self._releaser.release(holder, delivery.claims, message_id)
        if then is not None:
            self._releaser.after(holder, then)
        if delivery is not None:
            self._announce_release(delivery)

    def _announce_release(self, delivery: Delivery) -> None:
        if (permit := delivery.permit) is not None:
            held = time.monotonic() - delivery.since  # the clocks of store and worker may differ
            self._announce(PermitReleasedEvent(permit, held, delivery.task))
