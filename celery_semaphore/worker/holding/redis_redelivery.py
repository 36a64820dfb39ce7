"""RedisRedelivery: return held messages to Redis, to the front of their queues."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from kombu.transport.virtual import QoS
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads

from ..celery_internals import list_of, queues_of
from ..protocols import TaskMessage
from .held_message import HeldMessage

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
        self.put_in_front([held.request.message for held in waiting])

    def put_in_front(self, messages: Sequence[TaskMessage]) -> None:
        """Push the last message first, so that the first one ends at the front."""
        backwards = messages[::-1]
        for start in range(0, len(backwards), RESTORED_AT_ONCE):
            self._restore(backwards[start : start + RESTORED_AT_ONCE])

    def _restore(self, messages: Sequence[TaskMessage]) -> None:
        channel = messages[0].channel  # all came by one channel
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
