"""Ledger: the permits of one worker, from the moment they are asked for until they are given back.

How it fails, and what then: a process that dies after *asked* leaves its entry, which is released
once the process is gone; a worker that dies takes the ledger along, and the leases end; a release
that is not answered is repeated until the lease must have ended anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from ...core.events import Announcer, PermitReleased
from ...core.lease import LeaseKeeper
from ...core.permit import Claim, MessageId, Permit
from ...core.store import Outgoing
from .process import is_gone
from .releaser import Releaser


class Watcher(Protocol):
    """Whoever must act when its delivery gets or loses its permit."""

    task: Any  # Celery's

    def permit_held(self, since: float) -> None:
        """The permit is noted, acquired at this monotonic time: the message may be acknowledged."""

    def permit_lost(self, reason: str) -> None:
        """The lease ended while the task runs."""


@dataclass(slots=True)
class Delivery:
    """One delivery that asked for a permit."""

    holder: str
    claims: tuple[Claim, ...]
    permit: Permit | None = None
    since: float = 0.0  # monotonic time before the permit was acquired
    over: bool = False  # its body is, as its process noted
    released: bool = False  # by the process that ran the task
    told: bool = False  # the watcher knows of the permit
    task: Any = None  # the watcher's, once it is told


class Ledger:
    """Knows what each delivery asked for and holds; has it renewed, and released at its end.

    Changed by single steps that Python keeps whole, without a lock: a signal handler ends tasks (a cold shutdown),
    or sleeps (a soft one), whatever its thread was about to do here, and other threads must go on.
    """

    def __init__(
        self,
        keeper: LeaseKeeper,
        releaser: Releaser,
        announce: Announcer,
        handed_on: Callable[[Outgoing], None],
    ) -> None:
        self._keeper = keeper
        self._releaser = releaser
        self._announce = announce
        self._handed_on = handed_on
        self._deliveries: dict[str, Delivery] = {}
        self._watchers: dict[str, Watcher] = {}

    def asked(self, holder: str, claims: Sequence[Claim]) -> None:
        """The store will be asked: release it at the end, whatever the answer was."""
        self._deliveries.setdefault(holder, Delivery(holder, tuple(claims)))

    def held(self, permit: Permit, since: float, pid: int | None = None) -> None:
        """The store said yes: renew from now on, while the process that holds it lives."""
        delivery = self._deliveries.get(permit.holder)
        if delivery is None:  # already ended
            return
        delivery.since = since
        delivery.permit = permit = replace(permit, claims=delivery.claims)
        gone = None if pid is None else partial(is_gone, pid)
        self._keeper.add(permit, since, gone)
        if permit.holder not in self._deliveries:  # ended meanwhile: it would be renewed for ever
            self._keeper.discard(permit.holder)
        self._tell(permit.holder)

    def over(self, holder: str) -> None:
        """Its body is over; its process is about to report its end."""
        if delivery := self._deliveries.get(holder):
            delivery.over = True

    def is_over(self, holder: str) -> bool:
        """Whether its body is over, as far as was noted."""
        delivery = self._deliveries.get(holder)
        return delivery is not None and delivery.over

    def released(self, holder: str, outgoing: Outgoing) -> None:
        """The process that ran it has given the permit back; it will report its end."""
        if delivery := self._deliveries.get(holder):
            delivery.released = True
        self._keeper.discard(holder)
        self._handed_on(outgoing)

    def unreleased(self, holder: str) -> None:
        """The process that ran it could not give the permit back: renew no more.

        It will report its end, and then it is released. Or it will not: when Celery flushes its pool (a
        shutdown, a lost connection to the broker), it forgets the tasks that it wrote to a process and did
        not read the acceptance of. They run, and the end of their permits is that of the lease.
        """
        self._keeper.discard(holder)

    def watch(self, holder: str, watcher: Watcher) -> None:
        """Tell the watcher from now on, and at once if the permit is noted already."""
        self._watchers[holder] = watcher
        self._tell(holder)

    def has(self, holder: str) -> bool:
        """Whether this delivery has not ended yet, as far as was noted."""
        return holder in self._deliveries or holder in self._watchers

    def holds(self, holder: str) -> bool:
        """Whether this delivery has its permit, as far as was noted."""
        delivery = self._deliveries.get(holder)
        return delivery is not None and delivery.permit is not None

    def permits(self) -> list[Delivery]:
        """Return the deliveries that have their permits, as far as was noted, oldest first."""
        noted = [each for each in self._deliveries.copy().values() if each.permit]
        return sorted(noted, key=lambda each: each.since)

    def task_of(self, holder: str) -> Any:
        """The task that holds its permit; None where it is not known."""
        delivery = self._deliveries.get(holder)
        return None if delivery is None else delivery.task

    def lost(self, permit: Permit, reason: str) -> None:
        """The keeper says that this permit is lost."""
        if (watcher := self._watchers.get(permit.holder)) is not None:
            watcher.permit_lost(reason)

    def refused(self, holder: str) -> tuple[Claim, ...]:
        """The store said no for certain: there is nothing to release. What it was asked for."""
        delivery = self._taken(holder)
        return delivery.claims if delivery else ()

    def ended(
        self,
        holder: str,
        gone: Callable[[], bool] | None = None,
        message_id: MessageId | None = None,
    ) -> None:
        """Release this delivery's permit: at once, or once its process is ``gone``.

        With the ``publication`` that brought it if this was the end of its task, so that no copy runs.

        May be called more than once; a process that lives on and reports its end is not waited for.
        """
        if gone is None:
            self._give_back(holder, message_id)
        else:
            then = partial(self._give_back, holder, message_id)
            self._releaser.when(gone, then, lambda: not self.has(holder))

    def close(self, timeout: float) -> None:
        """Give back what can be given back in so many seconds; the leases cover the rest."""
        self._releaser.close(timeout)
        self._keeper.stop()

    def _tell(self, holder: str) -> None:
        """Tell the watcher of the permit, whichever of the two came first.

        Twice at worst, by two threads: each writes its part before it looks for the other's.
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

    def _give_back(self, holder: str, message_id: MessageId | None) -> None:
        delivery = self._taken(holder)
        if delivery is not None:
            if not delivery.released:
                self._releaser.release(holder, delivery.claims, message_id)
            self._announce_release(delivery)

    def _announce_release(self, delivery: Delivery) -> None:
        if (permit := delivery.permit) is not None:
            held = time.time() - permit.acquired_at
            self._announce(PermitReleased(permit, held, delivery.task))
