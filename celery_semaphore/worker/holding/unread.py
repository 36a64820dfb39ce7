"""Unread messages: what a broker has handed to a worker that ceases to consume before it has read it.

kombu asks Redis by BRPOP, which takes a message out of its list when it answers. An answer that comes
after the consumers were cancelled is read only when the channel is closed. Until then, for as long as the
running tasks take, the message is in no list, and a worker that is killed takes it along. At the end it is
put back by another channel of the connection, but the last one that kombu closes finds no other and drops
the message. So it is read at once, while all channels are open.

Brokers with acknowledgements of their own (RabbitMQ) deliver such a message again by themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from queue import Empty
from typing import Any

from kombu.common import ignore_errors

LATE_S = 1.0  # for an answer that is due
BRPOP_TIMEOUT_S = 1  # of kombu 5.5, whose channels do not say it


def give_back_unread(connection: Any) -> None:
    """Wait for each answer under way, and put its message back into its queue.

    To be called once no channel has a consumer. It takes as long as a BRPOP does: a second, unless the
    transport option ``polling_interval`` says otherwise; and little longer if the server hangs.
    """
    for channel in unanswered(connection):
        # One that lost its socket must not keep the others from being read.
        ignore_errors(connection, _give_back, channel)  # type: ignore[no-untyped-call]


def _give_back(channel: Any) -> None:
    if _has_answered(channel):
        with contextlib.suppress(Empty):  # the answer was that there is no message
            channel._brpop_read()  # noqa: SLF001 - kombu puts back what has no consumer


def _has_answered(channel: Any) -> bool:
    """Wait for the answer to a channel's BRPOP."""
    connection = channel._in_poll  # noqa: SLF001 - as above
    longest = getattr(channel, "brpop_timeout", BRPOP_TIMEOUT_S)
    if connection.can_read(longest + LATE_S):
        return True
    # A signal handler that takes longer than the wait (a cold shutdown on top of a warm one) makes it return
    # nothing, although the answer came meanwhile.
    return bool(connection.can_read(0))


def give_up_unanswered(connection: Any) -> None:
    """Read what has come over a connection that is being given up, and wait for no more of it.

    Celery closes such a connection twice. The first close of a channel fails where it waits for an answer, and the
    second one then restores its unacknowledged messages through a connection that is taken apart: an AttributeError
    (kombu 5.7), which ends the worker. A worker that holds waiting tasks has both, an answer to come and such messages.
    """
    give_back_unread(connection)
    for channel in unanswered(connection):
        channel._in_poll = None  # noqa: SLF001 - as above


def unanswered(connection: Any) -> Iterator[Any]:
    """Yield the channels whose BRPOP has not been answered."""
    channels = getattr(connection.transport, "channels", None) or ()
    return (channel for channel in list(channels) if getattr(channel, "_in_poll", None))
