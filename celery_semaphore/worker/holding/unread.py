"""Return messages that Redis has delivered but a worker has not read when it stops consuming.

kombu reads from Redis by BRPOP, which takes a message out of its list when it answers. An answer that comes after the
consumers were cancelled is read only when the channel is closed. Until then, for as long as the running tasks take,
the message is in no list, and is lost if the worker is killed. At the end another channel of the connection puts it
back; but the last channel that kombu closes finds no other one, and drops the message. So it is read at once, while
all channels are open.

Brokers with acknowledgements of their own (RabbitMQ) deliver such a message again by themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from queue import Empty
from typing import Any

from kombu.common import ignore_errors

from ..celery_internals import forget_answer, read_answer, unanswered_connection

LATE_S = 1.0  # how long to wait for an answer that is due
BRPOP_TIMEOUT_S = 1  # of kombu 5.5, where channels have no such attribute


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
        with contextlib.suppress(Empty):  # the answer was that there is no message
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
    which ends the worker. A worker that holds waiting tasks has both a pending answer and such messages.
    """
    give_back_unread(connection)
    for channel in unanswered(connection):
        forget_answer(channel)


def unanswered(connection: Any) -> Iterator[Any]:
    """Yield the channels with a pending BRPOP."""
    channels = getattr(connection.transport, "channels", None) or ()
    return (channel for channel in list(channels) if unanswered_connection(channel))
