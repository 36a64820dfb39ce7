"""UnstartedMessages: the granted messages of one connection that wait for a process, and go on to other workers.

While the permit of such a message waits for a process here, another worker may be idle. So a message that has waited
for a moment goes back to the front of its granted queue with its permit. This worker then receives none by granted
queues until a process is free, or for a second: if all workers are busy, granted messages still begin before others.

How it fails:

* A process takes the message meanwhile: all here happens in the event loop, which gives messages to processes.
* The worker or its connection dies right before or after the message went back: it is unacknowledged until the broker
  has it in its queue, so it is delivered once more, and not twice.
* The message comes back at once, since this worker is the next that the broker would deliver to: it ceases to receive
  first. On Redis a BRPOP that was sent before would still take it, so none is sent while a message waits here.
* All workers are busy, or no other one consumes the queue: each returns messages once a second at most, and keeps one
  that it returned before for longer. The grant ends when it would have ended.
* A quorum queue drops a message after some deliveries. There the message stays, and its grant ends, so that the permit
  goes to the next in line. The message is no part of the pool's line until the store was told: a later release by its
  ticket would end the wait that it begins by then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from functools import partial
from math import inf
from typing import Any

from celery.worker import state

from ...errors import SemaphoreError
from ...task.celery_types import Consumer
from ..celery_internals import pool_size, unanswered_connection
from ..keeping import redelivery, redis_redelivery
from ..keeping.pool_line import goes_first, leaves, waiting_by
from ..keeping.session import Session
from ..limiter import Limiter
from ..messages.granted_queue import granted_queue
from ..messages.ticket_header import WaitGrant
from .request import LimitedRequestMixin

logger = logging.getLogger(__name__)

BEGINS_WITHIN_S = 0.25  # a granted message that has no process by then goes back
PAUSE_S = 1.0  # between two returns, and for which a busy worker then receives none
LONGEST_S = 2.0  # the same for one that comes back; it doubles with each return
CHECK_S = 0.05  # between two checks for a free process during that time
NOTED = 1000  # messages with a count of their returns
COUNTED = "x-delivery-count"  # header of a message that a quorum queue has delivered before


class UnstartedMessages:
    """Returns the messages of one consumer of granted queues; only the event loop calls it."""

    def __init__(self, c: Consumer, limiter: Limiter, consumer: Any) -> None:
        self._c = c
        self._limiter = limiter
        self._consumer = consumer
        self._on_redis = c.connection.transport.driver_type == "redis"
        self._returned_at = self._hurried_at = -inf
        self._returns: dict[str, int] = {}  # by the nonces of their tickets
        self._paused = False
        self._requests: list[LimitedRequestMixin] = []  # that waited when this was last looked at
        self._checks = False  # whether the timer is set
        self._ended = False
        if self._on_redis:
            self._gate(consumer.channel)

    def received(self) -> None:
        """Look soon whether a process has begun what was just delivered."""
        self._requests = self._delivered()
        self._check_in(BEGINS_WITHIN_S)

    def give_back_all(self) -> None:
        """Return all messages that no process has begun: the worker ends, and has ceased to consume. G5."""
        self._ended = True
        # Celery has cleared the line by now. A process has, or had, a request that was given to the pool.
        waiting = [each for each in self._requests if each.is_unstarted]
        try:
            self._give_back(waiting)
        except Exception as error:  # noqa: BLE001 - any error: the connection is about to be closed
            logger.warning(
                "the broker delivers granted tasks again when its connection ends: %r", error
            )

    def forget(self) -> None:
        """Forget the messages of a lost connection, which the broker redelivers."""
        self._ended = True

    def _gate(self, channel: Any) -> None:
        """Let Redis deliver only while this worker receives; the answer to a BRPOP that was sent must be read."""
        can_consume = channel.qos.can_consume
        channel.qos.can_consume = lambda: (
            unanswered_connection(channel) or (self._receives() and can_consume())
        )

    def _receives(self) -> bool:
        return self._is_alone() or not (self._paused or self._waiting())

    def _is_alone(self) -> bool:
        """Return whether no other worker can begin what waits here; without a session it is unknown."""
        session = self._session
        return session is not None and session.sessions == 1

    @property
    def _session(self) -> Session | None:
        kept = self._limiter.worker.kept
        return None if kept is None else kept.session

    def _check_in(self, seconds: float) -> None:
        if not self._checks:
            self._checks = True
            self._c.timer.call_after(seconds, self._check)

    def _check(self) -> None:
        self._checks = False
        if self._ended:
            return
        if self._paused and (self._is_over() or self._has_free_process()):
            self._go_on()
        for request in self._waiting():
            if request.revoked_in_line():  # G3
                leaves(self._c, request)
        self._requests, waiting = self._delivered(), self._waiting()
        if any(map(self._is_late, waiting)):
            self._find_others()
        if self._paused:
            self._check_in(CHECK_S)
        elif waiting:
            self._check_in(BEGINS_WITHIN_S / 2)

    def _waiting(self) -> list[LimitedRequestMixin]:
        """Return the requests of granted messages that wait for a process, in order."""
        return [each for each in self._delivered() if each.grant]

    def _delivered(self) -> list[LimitedRequestMixin]:
        """Return all requests that wait for a process here, also of messages that came without a permit."""
        line = waiting_by(self._c, self._consumer.channel)
        return [each for each in line if isinstance(each, LimitedRequestMixin)]

    def _is_over(self) -> bool:
        return time.monotonic() - self._returned_at >= PAUSE_S

    def _is_late(self, request: LimitedRequestMixin) -> bool:
        returns = self._returns.get(_nonce(request), 0)
        longest = min(BEGINS_WITHIN_S * 2.0 ** min(returns, 10), LONGEST_S)
        return time.monotonic() - request.made_at >= longest

    def _has_free_process(self) -> bool:
        return len(state.reserved_requests) < pool_size(self._c.pool)

    def _find_others(self) -> None:
        """Return what waits, if there is another worker; if none is known, look for one."""
        session, now = self._session, time.monotonic()
        if session is not None and session.sessions == 1:
            if now - self._hurried_at >= PAUSE_S:
                self._hurried_at = now
                session.hurry()
        elif self._is_over():
            self._returned_at = now
            self._return()

    def _return(self) -> None:
        """Return what waits, and receive none for a while."""
        self._pause()
        consumed = {queue.name for queue in self._consumer.queues}
        # With what came while RabbitMQ answered, but without what no worker might get: its queue was cancelled.
        waiting = [each for each in self._waiting() if granted_queue(each.came_from()) in consumed]
        counted = [each for each in waiting if self._is_counted(each)]
        try:
            self._give_back([each for each in waiting if each not in counted])  # G1
        except Exception as error:  # noqa: BLE001 - if the connection is lost, Celery notices it
            logger.warning("granted tasks could not be given to other workers yet: %r", error)
        for request in counted:
            self._end_grant(request)  # G2
        self._requests = self._delivered()
        if len(self._returns) > NOTED:
            self._returns.clear()

    def _pause(self) -> None:
        self._paused = True
        if not self._on_redis:
            self._consumer.cancel()  # what comes until RabbitMQ's answer goes back, too

    def _go_on(self) -> None:
        self._paused = False
        if not self._on_redis:
            self._consumer.consume()

    def _give_back(self, waiting: Sequence[LimitedRequestMixin]) -> None:
        if not waiting:
            return
        messages = [request.message for request in waiting]
        if self._on_redis:
            redis_redelivery.put_in_front(messages)
        else:
            redelivery.put_in_front(messages, self._c.connection_errors)
        for request in waiting:
            leaves(self._c, request)
            state.task_ready(request)
            self._returns[_nonce(request)] = self._returns.get(_nonce(request), 0) + 1

    def _is_counted(self, request: LimitedRequestMixin) -> bool:
        """Return whether the queue counts this message's deliveries, and would drop it after some."""
        queue = self._c.app.amqp.queues.get(request.came_from())
        arguments = (queue is not None and queue.queue_arguments) or {}
        return (
            arguments.get("x-queue-type") == "quorum"
            or COUNTED in request.message.headers  # a virtual host or a policy can make it one
        )

    def _end_grant(self, request: LimitedRequestMixin) -> None:
        """Let the next in line have the permit; when a process takes this request, it asks at its own place."""
        grant, request.grant = request.grant, None
        if grant is None:
            return
        leaves(self._c, request)
        self._limiter.process.releaser.soon(partial(self._release, grant, request))

    def _release(self, grant: WaitGrant, request: LimitedRequestMixin) -> None:
        """Release in the releaser's thread, once: by a late repetition the wait of a parked message would end."""
        try:
            self._limiter.handed_on(self._limiter.process.measured.release(*grant))
        except SemaphoreError as error:
            logger.debug("the grant of task %s ends by itself: %s", request.id, error)
        finally:
            self._limiter.worker.in_loop(partial(self._line_up_again, request))

    def _line_up_again(self, request: LimitedRequestMixin) -> None:
        if not self._ended:
            goes_first(self._c, partial(self._c.on_task_request, request))


def unstarted_of(c: Consumer, limiter: Limiter, consumer: Any) -> UnstartedMessages | None:
    """Return the unstarted messages of a consumer; None if it is not known how its broker takes messages back.

    P1 says the same of kept messages. Without a hub there is no such consumer.
    """
    driver = c.connection.transport.driver_type
    if consumer is None or driver not in ("amqp", "redis"):
        return None
    if driver == "redis" and not consumer.channel.ack_emulation:
        return None
    return UnstartedMessages(c, limiter, consumer)


def _nonce(request: LimitedRequestMixin) -> str:
    return "" if request.grant is None else request.grant[0].nonce
