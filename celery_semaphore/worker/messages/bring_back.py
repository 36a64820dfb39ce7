"""BringBack: send parked messages to their queues."""

from __future__ import annotations

import logging
import os
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress

from ...core.events import MessageBroughtBackEvent
from ...core.formats import NewerFormat
from ...core.grant import Grant
from ...core.store import Outgoing, Store
from .brokers import Brokers
from .consumed_queues import ConsumedQueues
from .hourly_warnings import HourlyWarnings
from .move_job import Announce, ignore
from .parked import Parked, unpacked
from .publisher import Publisher, Returned
from .ticket_header import sent_back

logger = logging.getLogger(__name__)
_warnings = HourlyWarnings(logger)


class BringBack:
    """Takes messages out of the outbox and sends each by a queue that a worker consumes.

    That is the granted queue, else its own. If no worker consumes either, its permit would idle until a worker starts.
    So the message goes to its own queue without the permit, which ends in the step that tells the store that the broker
    has the message. There it waits like any task of a queue without a worker, and its ticket keeps its place.
    """

    urgent = True  # a permit is reserved for each message

    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        outgoing: Outgoing,
        *,
        queues: ConsumedQueues,
        brokers: Brokers,
        found: Callable[[Outgoing], object],
        sent_to: Callable[[str], object],
        grants: Iterable[Grant] = (),
        announce: Announce = ignore,
    ) -> None:
        self._announce = announce
        self.name = "bringing parked tasks back"
        self._queues = queues
        self._brokers = brokers
        self._found = found
        self._sent_to = sent_to  # is told the queue of each message that went by a granted queue
        self._store = store
        self._publisher = publisher
        self._outgoing = outgoing
        # Already taken out of the outbox.
        self._messages = deque(self._sendable(grants))

    def run(self) -> None:
        """Send the messages and report them to the store, which offers the others again after their grants."""
        if not self._messages:
            self._publisher.check()  # if the broker is away, leave the messages to other workers
            taken = self._store.take(self._outgoing, self._brokers.of_outbox)
            self._messages.extend(self._sendable(taken))
        unconsumed = self._queues.unconsumed(
            {name for _, parked in self._messages for name in (parked.way, parked.queue)}
        )
        sent: list[Grant] = []
        stranded: list[Grant] = []
        try:
            while self._messages:
                grant, parked = self._messages[0]
                ways = queues_back(parked, unconsumed)
                is_stranded = ways[0] in unconsumed and grant.token > 0
                try:
                    self._send(grant, parked, ways, keeps=grant.token > 0 and not is_stranded)
                finally:
                    if ways[0] != parked.queue:  # it may be there after an error, too
                        self._sent_to(parked.queue)
                (stranded if is_stranded else sent).append(grant)
                if is_stranded:
                    self._queues.warn(ways[0])
                self._messages.popleft()
        finally:
            self._messages.rotate(-1)  # one that cannot be sent must not delay the others
            if sent:
                self._store.sent(sent)
            if stranded:
                self._store.sent(stranded, arrive=False)
                self._found(self._store.reap())  # hand their permits on

    def lasts(self, error: Exception, tried_for: float) -> bool:  # noqa: ARG002 - part of the protocol
        """Give up what could not be sent for a while: the store offers it again, to any worker."""
        return False

    def on_give_up(self) -> None:
        """Do nothing: the messages stay in the store, which offers them again."""

    def _sendable(self, grants: Iterable[Grant]) -> Iterator[tuple[Grant, Parked]]:
        consumed = self._queues.own()
        return (each for each in _readable(grants) if self._brokers.sends(each[1], consumed))

    def _send(self, grant: Grant, message: Parked, ways: Sequence[str], *, keeps: bool) -> None:
        # Unlike a message that was put back, this one is published by no holder: its name is random.
        granted = grant.claims if keeps else ()
        header = sent_back(os.urandom(8).hex(), 1, grant.ticket, message.refusals, granted=granted)
        self._publish(message, ways, header)
        semaphores = tuple(claim.semaphore for claim in grant.claims)
        self._announce(MessageBroughtBackEvent(semaphores, str(message.headers.get("task"))))

    def _publish(self, message: Parked, ways: Sequence[str], header: str) -> None:
        """Publish it into the first of these queues that is there; the last one is declared only if it is gone, too.

        If it is there, RabbitMQ would refuse a declaration with other arguments, and its workers' app may have other
        ones than this app.
        """
        for by in ways:
            with suppress(Returned):  # the queue is gone: no worker consumes it any more
                self._publisher.publish(message, by, header=header)
                return
        self._publisher.declare(message.queue)
        self._publisher.publish(message, message.queue, header=header)


def queues_back(parked: Parked, unconsumed: Collection[str]) -> tuple[str, ...]:
    """Return the queues by which a parked message comes back, the best one first, its own one last.

    ``way`` is its granted queue, if the worker that parked it consumed one; it is left out if no worker does by now.
    """
    ways = (parked.queue,) if parked.way in unconsumed else (parked.way, parked.queue)
    return tuple(dict.fromkeys(ways))


def _readable(grants: Iterable[Grant]) -> Iterator[tuple[Grant, Parked]]:
    """Yield the grants with their messages, without those that only a newer worker can send: it is offered them."""
    for grant in grants:
        try:
            yield grant, unpacked(grant.payload)
        except NewerFormat as error:
            _warnings.warn(f"format {error.found}", f"a parked task stays in the store: {error}")
        except Exception:  # one that cannot be read must not keep the others from being sent
            logger.exception(
                "a parked message of semaphore %r cannot be read", grant.claims[0].semaphore
            )
