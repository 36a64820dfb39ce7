"""Return messages to the broker, to the front of the queue that they came from.

Messages are published again only for quorum queues, which count deliveries. Otherwise there is no confirm to wait for,
and never a second message of one task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from celery.utils.quorum_queues import detect_quorum_queues
from kombu.transport.virtual import QoS
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads

from ...core.ticket import Ticket
from ..celery_internals import list_of, queues_of
from ..celery_types import Consumer
from ..protocols import TaskMessage, TaskRequest
from .held_message import HeldMessage
from .prefetch import MAX_RAISED_MESSAGES

logger = logging.getLogger(__name__)

RESTORED_AT_ONCE = 200  # messages in one call of Redis, which answers no other client meanwhile

# Push each message that is still unacknowledged to the end from which BRPOP takes the next one. The push comes first:
# a full server refuses the first write of a script, and a message must never be in neither place.
#   key 1 unacknowledged messages  2 their times  then queues
#   arg delivery tag, number of the queue's key, message; and so on
RESTORE = """
for n = 1, #ARGV, 3 do
    if redis.call("HEXISTS", KEYS[1], ARGV[n]) == 1 then
        redis.call("RPUSH", KEYS[tonumber(ARGV[n + 1])], ARGV[n + 2])
        redis.call("HDEL", KEYS[1], ARGV[n])
        redis.call("ZREM", KEYS[2], ARGV[n])
    end
end
"""


PutBackCall = Callable[[TaskRequest, Ticket | None, float], object]  # request, ticket, delay


class Redelivery(Protocol):
    """How one kind of broker takes messages back."""

    @property
    def window(self) -> int | None:
        """The number of messages that may be held where the prefetch cannot be raised; else None."""

    def takes(self, message: TaskMessage) -> bool:
        """Return whether the broker would redeliver this message exactly once."""

    def may_take(self, message: TaskMessage) -> bool:
        """Return the same, as far as is known without a call to the broker."""

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        """Return all messages to the broker, such that the first one is delivered first."""


def redelivery_of(c: Consumer, put_back: PutBackCall) -> Redelivery | None:
    """Return how the broker of this consumer takes messages back; None if no message may be held.

    It is unknown how brokers other than Redis and RabbitMQ take messages back: P3.
    """
    driver = c.connection.transport.driver_type
    if not _has_loop(c):
        return None
    if driver == "redis":
        return RedisRedelivery()
    if driver == "amqp" and detect_quorum_queues(c.app, driver)[0]:
        return QuorumRedelivery(c.initial_prefetch_count, put_back)
    if driver == "amqp":
        return AmqpRedelivery(c.connection_errors)
    return None


def _has_loop(c: Consumer) -> bool:
    """Return whether Celery's timer runs where messages are received, and not in a thread of its own: P8."""
    return c.hub is not None or bool(getattr(c.pool, "is_green", False))


class AmqpRedelivery:
    """Returns messages to a classic queue of RabbitMQ, which puts each back where it was."""

    window = None

    def __init__(self, errors: tuple[type[Exception], ...]) -> None:
        self._errors = errors

    def takes(self, message: TaskMessage) -> bool:  # noqa: ARG002 - part of the protocol
        return True

    may_take = takes

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        for message in (held.request.message for held in waiting):
            if not message.acknowledged:  # a revoke with terminate=True acknowledges it
                message.reject_log_error(logger, self._errors, requeue=True)


class QuorumRedelivery:
    """Publishes messages of quorum queues again, with a delay until their expected turn.

    A quorum queue counts deliveries, and drops a message after too many of them. Its prefetch cannot be raised, so half
    of it is for held messages, and half for those that run: P2.
    """

    def __init__(self, prefetch: int, put_back: PutBackCall) -> None:
        self.window = prefetch // 2 if prefetch else MAX_RAISED_MESSAGES
        self._put_back = put_back

    def takes(self, message: TaskMessage) -> bool:  # noqa: ARG002 - part of the protocol
        return True

    may_take = takes

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        for held in waiting:
            self._put_back(held.request, held.ticket, max(held.expected - time.monotonic(), 0.0))


class RedisRedelivery:
    """Returns messages to Redis by a script of its own.

    kombu keeps unacknowledged messages in a hash, and restores one at a time, in a millisecond each. Its ``reject``
    puts them behind the queue, and its shutdown restores them in the wrong order.
    """

    window = None

    def __init__(self) -> None:
        self._copied: set[tuple[str, str | None]] = (
            set()
        )  # exchanges and keys that lead to several queues

    def takes(self, message: TaskMessage) -> bool:
        """Return whether its exchange leads to one queue: kombu restores through it, and would make copies, P4."""
        channel, (exchange, key) = message.channel, _address(message)
        if not channel.ack_emulation:
            return False
        if exchange and len(queues_of(channel, exchange, key)) != 1:
            self._copied.add((exchange, key))
            return False
        self._copied.discard((exchange, key))
        return True

    def may_take(self, message: TaskMessage) -> bool:
        return bool(message.channel.ack_emulation) and _address(message) not in self._copied

    def give_back(self, waiting: Sequence[HeldMessage]) -> None:
        """Push the last message first, so that the first one ends at the front."""
        backwards = [held.request.message for held in reversed(waiting)]
        for start in range(0, len(backwards), RESTORED_AT_ONCE):
            self._restore(backwards[start : start + RESTORED_AT_ONCE])

    def _restore(self, messages: Sequence[TaskMessage]) -> None:
        channel = messages[0].channel  # all came by the worker's own channel
        # kombu's client adds its prefix to the keys of some commands, but not of these.
        keys = [
            channel.global_keyprefix + key
            for key in (channel.unacked_key, channel.unacked_index_key)
        ]
        gone: list[str] = []  # tags of messages that this worker has no more
        arguments: list[Any] = []
        with channel.conn_or_acquire() as client:
            kept = client.hmget(keys[0], [message.delivery_tag for message in messages])
            for message, text in zip(messages, kept, strict=True):
                if text is None:  # another worker restored it, after the visibility timeout
                    gone.append(message.delivery_tag)
                elif (found := _restored(channel, text)) is not None:
                    queue = channel.global_keyprefix + found[0]
                    if queue not in keys[2:]:
                        keys.append(queue)
                    arguments += [message.delivery_tag, keys.index(queue, 2) + 1, found[1]]
            client.eval(RESTORE, len(keys), *keys, *arguments)
        for tag in (*gone, *arguments[::3]):
            _forget(channel, tag)


def leave_to_broker(message: TaskMessage) -> None:
    """Forget this message without acknowledging it: the broker delivers it again, or has done so.

    kombu's Redis transport gives one message the same delivery tag each time. If it was redelivered, an
    acknowledgement would take it from the worker that has it now, which could not return it any more.
    """
    _forget(message.channel, message.delivery_tag)


def _forget(channel: Any, tag: str) -> None:
    """Let kombu forget the message, so that it neither counts it nor restores it at the end."""
    QoS.ack(channel.qos, tag)


def _address(message: TaskMessage) -> tuple[str, str | None]:
    came_by = message.delivery_info
    return came_by.get("exchange") or "", came_by.get("routing_key")


def _restored(channel: Any, text: bytes | str) -> tuple[str, str] | None:
    """Return the Redis list that a message belongs to, and its text marked as redelivered.

    Return None if its queue is bound no more: kombu's own restore logs that when the connection ends.
    """
    raw, exchange, routing_key = loads(bytes_to_str(text))
    with suppress(KeyError):  # as kombu does: not every sender is kombu
        raw["headers"]["redelivered"] = True
        raw["properties"]["delivery_info"]["redelivered"] = True
    queues = queues_of(channel, exchange, routing_key)
    if len(queues) != 1:
        return None
    return list_of(channel, queues[0], raw), dumps(raw)
