"""MessageMover: move waiting messages to the broker or the store, and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from celery import Celery

from ...core.claim import Claim
from ...core.store import HandedOn, Outgoing, Store
from ...core.sweep import LONGEST_SWEEP_S
from ...core.ticket import Ticket
from ...settings import Settings
from ...task.protocols import TaskRequest
from .bring_back import BringBack
from .brokers import Brokers
from .consumed_queues import ConsumedQueues
from .emptier import Emptier, without_granted
from .job import CannotPark
from .move_job import Announce, ignore
from .park import Park
from .publisher import Publisher
from .put_back import PutBack
from .scheduler import Scheduler


class MessageMover:
    """Moves messages by one thread and one connection to the broker, both made when they are first needed."""

    def __init__(
        self,
        app: Celery,
        settings: Settings,
        store: Callable[[], Store],
        done: Callable[[], None],
        *,
        queues: ConsumedQueues,
        handed_on: Callable[[HandedOn], object],
        brokers: Brokers,
        announce: Announce = ignore,
    ) -> None:
        self._app = app
        self._announce = announce
        self._settings = settings
        self._queues = queues
        self._handed_on = handed_on
        self._brokers = brokers
        self._absent: dict[str, float] = {}  # granted queues that are not there
        self._watched: dict[str, float] = {}  # since when, by queue
        self._sweeping: Emptier | None = None  # of the last sweep
        self._swept: int | None = None  # the store's epoch then
        self._store = store
        self._publisher = Publisher(app, settings.publish_timeout)
        self._scheduler = Scheduler(
            settings.publish_timeout, done, self._publisher.disconnect, self._publish_instead
        )

    def put_back(self, request: TaskRequest, ticket: Ticket | None, delay: float) -> None:
        """Publish the message into its queue again, to come back after ``delay`` seconds."""
        longest = self._settings.longest_delay
        announce = self._announce
        self._scheduler.add(
            PutBack(self._publisher, request, ticket, delay, longest=longest, announce=announce)
        )

    def park(
        self,
        request: TaskRequest,
        ticket: Ticket,
        claims: Sequence[Claim],
        *,
        delay: float,
        ends_in: float | None,
    ) -> None:
        """Move the message into the store, or back into its queue for ``delay`` seconds if the store cannot take it."""
        job = Park(
            self._store(),
            request,
            ticket,
            claims,
            delay=delay,
            ends_in=ends_in,
            largest=self._settings.park_max_size,
            longest=self._settings.longest_delay,
            broker=self._brokers.own,
            outgoing=self.bring_back,
            announce=self._announce,
        )
        self._scheduler.add(job)

    def _publish_instead(self, job: Park, why: CannotPark) -> None:
        """Publish a message that could not be parked: an unheard answer may have left it in the store, too. P3."""
        if why.error is not None:
            job.request.on_not_parked(why.error)
        self.put_back(job.request, job.ticket, job.delay)

    def bring_back(self, outgoing: Outgoing) -> None:
        """Move messages out of the store, into their queues."""
        if outgoing:
            job = BringBack(
                self._store(),
                self._publisher,
                outgoing,
                queues=self._queues,
                brokers=self._brokers,
                found=self.bring_back,
                sent_to=lambda home: self.watch({home}),
                announce=self._announce,
            )
            self._scheduler.add(job)

    def leave(self, homes: Collection[str]) -> None:
        """Empty the granted queues of these, which this worker consumes no more, unless another one does."""
        self.watch(homes)  # what goes back may come a moment later
        self._empty(homes)

    def watch(self, homes: Collection[str]) -> None:
        """Let sweeps empty the granted queues of these for a while, if no worker consumes them.

        A task may reach a granted queue just after the last worker had emptied it. On SQS they are not watched: a look
        into an empty queue takes 10 s there, in the thread for which all other messages wait.
        """
        if self._is_on_sqs:
            return
        for home in homes:
            self._watched[home] = time.monotonic()
            self._absent.pop(home, None)  # it may be there by now

    @cached_property
    def _is_on_sqs(self) -> bool:
        return bool(self._app.connection_for_read().transport.driver_type == "sqs")

    def forget_watched(self) -> None:
        """Watch no queue: what the store knows of consumed queues may be old, or gone."""
        self._watched = {}

    def sweep(self) -> None:
        """Empty granted queues that no worker consumes: of the worker's own queues, and of those that are watched.

        They are watched for ``take_up``, as long as a grant may last, and at least until the next sweep. One such job
        at a time: the broker may be slow, and other messages wait behind it.
        """
        store = self._store()
        if store.epoch != self._swept:  # the others may not have said yet what they consume
            self._swept = store.epoch
            self.forget_watched()
        if self._sweeping is None or self._sweeping.over:
            longest = max(
                store.in_force[1] / 1_000_000, LONGEST_SWEEP_S
            )  # take_up, in microseconds
            since = time.monotonic() - longest
            watched = {home for home, at in self._watched.copy().items() if at >= since}
            self._sweeping = self._empty(without_granted(self._queues.own() | watched))

    def _empty(self, homes: Collection[str]) -> Emptier | None:
        if not homes:
            return None
        job = Emptier(
            self._publisher,
            self._queues,
            homes,
            self._absent,
            store=self._store(),
            handed_on=self._handed_on,
        )
        self._scheduler.add(job)
        return job

    def flush(self, timeout: float) -> None:
        """Wait until all is done, for ``timeout`` seconds at most."""
        self._scheduler.flush(timeout)

    def close(self, timeout: float) -> None:
        """End the thread; a message not moved within ``timeout`` seconds stays unacknowledged, or in the store."""
        self._scheduler.close(timeout)
