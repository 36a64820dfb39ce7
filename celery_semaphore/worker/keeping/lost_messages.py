"""LostMessages: give back what a lost connection to Redis had delivered, once there is a new one.

kombu does it while it closes a lost connection, but cannot if the server is away at that moment. Then the messages stay
unacknowledged until the visibility timeout, an hour by default. How it fails:

* The server comes back empty: there is nothing to give back.
* Another worker got a message meanwhile: the time of its delivery is another one, and it is left alone.
* The connection is lost once more before that: the messages stay noted.
* A task still runs: its message is left alone, unless the task is refused then, or Celery has ended it.
* The worker ends before that: it connects once more for this alone, before its pool ends.
* What its pool had by then waits for the visibility timeout, as do all if the server is still away, or the worker is
  killed: a task that Celery has ended may run on for a while, and a pool of threads may yet begin what it has.
* The server or a sentinel hangs then: a thread waits for it, and the worker for that no longer than for one answer.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from celery import Celery
from celery.worker import state

from ...task.celery_types import Consumer
from ...task.protocols import TaskMessage
from ..celery_internals import (
    Times,
    note_times,
    restore_nothing_at_exit,
    times_of,
    unacknowledged_on,
)
from ..messages.broker import connected
from .kept_message import KeptMessage
from .redis_redelivery import restore

logger = logging.getLogger(__name__)

WAIT_FOR_TIMEOUT = "messages of a lost connection wait for the visibility timeout of the broker"


class LostMessages:
    """Has the delivery tags of all lost connections, which kombu never changes.

    Only the event loop changes them, and after its end a thread, which may go on beside the next worker's loop.
    """

    def __init__(self) -> None:
        self._noted: dict[str, Times] = {}  # the first one of its queue first
        self._running: dict[str, Any] = {}  # the requests that ran when it was lost
        self._channel: Any = None  # of the connection that is there

    def note(self, c: Consumer, line: Sequence[KeptMessage]) -> None:
        """Note the messages of a connection that is lost, before kombu closes it; ``line`` is kept in this order."""
        self._channel = None
        if c.connection is None or c.connection.transport.driver_type != "redis":
            return
        restore_nothing_at_exit(c.connection)  # by then another worker may have it, by the same tag
        # A pool of threads begins all that it was given; Celery drops what waits for a process.
        begun = state.active_requests if c.pool.uses_semaphore else state.reserved_requests
        running = {each.message.delivery_tag: each for each in tuple(begun)}
        for tag in self._running.keys() - running.keys():
            self._noted.pop(tag, None)  # its task has ended since the loss before
        self._running = running
        kept = [each.request.message for each in line]
        tags, ordered = {each.delivery_tag for each in kept}, iter(kept)
        for message in unacknowledged_on(c.connection):
            lost = next(ordered) if message.delivery_tag in tags else message
            self._noted[lost.delivery_tag] = times_of(lost)

    def give_back(self, c: Consumer) -> None:
        """Give back what is noted, before the new connection consumes."""
        self._channel = None
        if c.connection.transport.driver_type == "redis":
            note_times(c.connection)
            self._channel = c.task_consumer.channel
            self._running = {
                tag: each for tag, each in self._running.items() if not _is_ended(each)
            }
            self._give_back(self._channel)

    def refused(self, message: TaskMessage) -> None:
        """Give back the message of a task that was refused after its connection was lost."""
        if self._running.pop(message.delivery_tag, None) is not None and self._channel is not None:
            self._give_back(self._channel)

    def give_back_at_end(self, app: Celery, timeout: float) -> None:
        """Give back what is noted, by a connection of its own, if the worker ends before it has another one.

        It takes ``timeout`` seconds at most.
        """
        if not self._left():
            return
        # Each of a broker's addresses, and each sentinel, may take the whole time.
        thread = threading.Thread(
            target=self._connect_and_give_back, args=[app, timeout], daemon=True
        )
        thread.start()
        thread.join(timeout)
        if thread.is_alive():
            logger.warning("%s: it gave no answer within %s s", WAIT_FOR_TIMEOUT, timeout)

    def _connect_and_give_back(self, app: Celery, timeout: float) -> None:
        try:
            with connected(app, timeout) as connection:
                # It declares the queues, by which a message's own one is found.
                self._give_back(app.amqp.TaskConsumer(connection.default_channel).channel)
        except Exception as error:  # noqa: BLE001 - the worker must end
            logger.warning("%s: %r", WAIT_FOR_TIMEOUT, error)

    def _give_back(self, channel: Any) -> None:
        if not (lost := self._left()):
            return
        logger.info("%d messages of the lost connection go back to the broker", len(lost))
        try:
            list(restore(channel, lost))
        except channel.connection_errors:
            raise  # the loop notices that this connection is lost, too
        except Exception:
            logger.warning(WAIT_FOR_TIMEOUT, exc_info=True)
        for tag in lost:
            self._noted.pop(tag, None)

    def _left(self) -> dict[str, Times]:
        """Return what may go back: of what is noted, all but the messages of running tasks."""
        return {tag: at for tag, at in self._noted.copy().items() if tag not in self._running}


def _is_ended(request: Any) -> bool:
    """Return whether Celery ended the task because its connection was lost, so that it is run again."""
    return bool(request._already_cancelled)  # noqa: SLF001 - see REQUEST_ATTRIBUTES
