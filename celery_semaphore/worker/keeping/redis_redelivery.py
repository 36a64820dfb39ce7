"""RedisRedelivery: return messages to Redis, to the front of their queues: kept ones, and those that it left unread.

kombu reads from Redis by BRPOP, which takes a message out of its list when it answers. An answer that comes after the
consumers were cancelled is read only when the channel is closed. Until then, for as long as the running tasks take,
the message is in no list, and is lost if the worker is killed. At the end another channel of the connection puts it
back; but the last channel that kombu closes finds no other one, and drops the message. So it is read at once, while
all channels are open.

Brokers with acknowledgements of their own (RabbitMQ) deliver such a message again by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from queue import Empty
from typing import Any

from kombu.common import ignore_errors
from kombu.transport.virtual import QoS
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads

from ...task.protocols import TaskMessage
from ..celery_internals import (
    Times,
    forget_answer,
    list_of,
    queues_of,
    read_answer,
    times_of,
    unanswered_connection,
)
from .kept_message import KeptMessage

LATE_S = 1.0  # how long to wait for an answer that is due
BRPOP_TIMEOUT_S = 1  # of kombu 5.5, where channels have no such attribute
RESTORED_AT_ONCE = 200  # messages in one call of Redis, which answers no other client meanwhile
# Push each message that is still unacknowledged to the end from which BRPOP takes the next one. One with another time
# was delivered again since, to a worker that has it now. The push comes first: a full server refuses the first write of
# a script, and a message must never be in neither place.
#   key 1 unacknowledged messages  2 their times  then queues
#   arg delivery tag, the times between which it was delivered, number of the queue's key, message; and so on
RESTORE = """
for n = 1, #ARGV, 5 do
    local at = tonumber(redis.call("ZSCORE", KEYS[2], ARGV[n]) or ARGV[n + 1])
    local ours = tonumber(ARGV[n + 1]) <= at and at <= tonumber(ARGV[n + 2])
    if ours and redis.call("HEXISTS", KEYS[1], ARGV[n]) == 1 then
        redis.call("RPUSH", KEYS[tonumber(ARGV[n + 3])], ARGV[n + 4])
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
        # Exchanges and keys that lead to several queues.
        self._copied: set[tuple[str, str | None]] = set()

    def takes(self, message: TaskMessage) -> bool:
        """Return whether its exchange leads to one queue: kombu restores through it, and would make copies."""
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

    def give_back(self, waiting: Sequence[KeptMessage]) -> None:
        put_in_front([kept.request.message for kept in waiting])


def put_in_front(messages: Sequence[TaskMessage]) -> None:
    """Return messages, which all came by one channel, to the front of their queues, the first one first."""
    if messages:
        channel = messages[0].channel
        for tag in restore(channel, {each.delivery_tag: times_of(each) for each in messages}):
            _forget(channel, tag)


def restore(channel: Any, delivered: Mapping[str, Times]) -> Iterator[str]:
    """Return messages to their queues, the last one first, so that the first one ends at the front.

    ``delivered`` has their tags, and when they were delivered. Yield the tags that are not this worker's any more.
    """
    backwards = list(delivered.items())[::-1]
    for start in range(0, len(backwards), RESTORED_AT_ONCE):
        yield from _restore(channel, backwards[start : start + RESTORED_AT_ONCE])


def _restore(channel: Any, delivered: Sequence[tuple[str, Times]]) -> list[str]:
    # kombu's client adds its prefix to the keys of some commands, but not of these.
    keys = [
        channel.global_keyprefix + key for key in (channel.unacked_key, channel.unacked_index_key)
    ]
    gone: list[str] = []  # tags of messages that this worker has no more
    arguments: list[Any] = []
    with channel.conn_or_acquire() as client:
        kept = client.hmget(keys[0], [tag for tag, _ in delivered])
        for (tag, times), text in zip(delivered, kept, strict=True):
            if text is None:  # another worker restored it, after the visibility timeout
                gone.append(tag)
            elif (found := _restored(channel, text)) is not None:
                queue = channel.global_keyprefix + found[0]
                if queue not in keys[2:]:
                    keys.append(queue)
                arguments += [tag, *map(repr, times), keys.index(queue, 2) + 1, found[1]]
        client.eval(RESTORE, len(keys), *keys, *arguments)
    return gone + arguments[::5]


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


# -- messages that were delivered and not read


def give_back_unread(connection: Any) -> None:
    """Wait for each pending answer, and put its message back into its queue.

    Call it once no channel has a consumer. It takes as long as a BRPOP does: a second, unless the transport option
    ``polling_interval`` is set; and little longer if the server hangs.
    """
    for channel in unanswered(connection):
        # A channel that lost its socket must not keep the others from being read.
        ignore_errors(connection, _give_back, channel)


def _give_back(channel: Any) -> None:
    if _has_answered(channel):
        with suppress(Empty):  # the answer was that there is no message
            read_answer(channel)


def _has_answered(channel: Any) -> bool:
    """Wait for the answer to a channel's BRPOP, and return whether it came."""
    connection = unanswered_connection(channel)
    longest = getattr(channel, "brpop_timeout", BRPOP_TIMEOUT_S)
    if connection.can_read(longest + LATE_S):
        return True
    # After a signal handler that takes longer than the wait (a cold shutdown during a warm one), can_read() returns
    # False although the answer came meanwhile.
    return bool(connection.can_read(0))


def give_up_unanswered(connection: Any) -> None:
    """Read the answers of a lost connection that have come, and drop the others.

    Celery closes such a connection twice. The first close of a channel fails if it waits for an answer. The second one
    then restores its unacknowledged messages through a connection that is taken apart: an AttributeError (kombu 5.7),
    which ends the worker. A worker that keeps waiting tasks has both a pending answer and such messages.
    """
    give_back_unread(connection)
    for channel in unanswered(connection):
        forget_answer(channel)


def unanswered(connection: Any) -> Iterator[Any]:
    """Yield the channels with a pending BRPOP."""
    channels = getattr(connection.transport, "channels", None) or ()
    return (channel for channel in list(channels) if unanswered_connection(channel))
