"""Publisher: put messages into queues, with confirms, on a connection of its own, never blocking for long."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery
from kombu import Queue
from kombu.exceptions import OperationalError

from ...core.breaker import CircuitBreaker
from ...task.protocols import MessageContent
from .job import RetryLater
from .message import publish_arguments
from .own_queue import Unroutable
from .route import route_to

logger = logging.getLogger(__name__)

AWAY_PAUSE_S = 5.0  # longest time without an attempt to connect, after one has failed


class Publisher:
    """Publishes messages; for one thread only.

    After a failure to reach the broker there is no attempt for a while: each may take as long as its timeouts, and
    all messages behind it would wait for one after the other.

    The connection object is kept for its list of URLs. Each attempt begins with the URL that worked last, or with the
    first one that the last attempt did not try.
    """

    def __init__(self, app: Celery, timeout: float) -> None:
        self._app = app
        self._timeout = timeout
        self._connection: Any = None
        self._producer: Any = None
        self._breaker = CircuitBreaker(longest=AWAY_PAUSE_S)
        self._away = False

    def check(self) -> None:
        """Raise ``RetryLater`` if the broker could not be reached a moment ago."""
        if (left := self._breaker.left()) > 0:
            msg = "the broker could not be reached a moment ago"
            raise RetryLater(msg, left)

    def publish(
        self, message: MessageContent, queue: str, *, header: str, delay: float = 0.0
    ) -> None:
        """Publish a message, and return once the broker has confirmed it. ``header`` is its ticket header.

        Raise ``RetryLater`` if the broker is away, else the error. After an error the message may still have arrived.
        """
        with self._anew_after_errors():
            self._publish(message, queue, header, delay)

    def disconnect(self) -> None:
        """Close the connection; the next call opens a new one."""
        self._producer = None
        if self._connection is not None:
            try:
                self._connection.collect()
            except Exception as error:  # noqa: BLE001 - after any error the connection is dropped
                logger.debug("closing a broken connection: %r", error)

    def declare(self, queue: str) -> None:
        """Declare the queue, as Celery does before it sends."""
        with self._anew_after_errors():
            self._app.amqp.queues[queue](self._connected().channel).declare()

    def fetch(self, queue: str) -> Any:
        """Return the next message of a queue, to be acknowledged; None if there is none.

        If the connection ends before that, the broker delivers it again. Raise ``Unreadable`` if there is no such
        queue, or no right to read it.
        """
        with self._anew_after_errors():
            channel = self._connected().channel
            try:
                return Queue(queue, no_declare=True)(channel).get(no_ack=False)
            except self._connection.channel_errors as error:
                raise Unreadable(str(error)) from error

    @contextmanager
    def _anew_after_errors(self) -> Iterator[None]:
        self.check()
        try:
            yield
        except Unroutable:
            raise
        except Exception as error:
            away = self._is_away(error)
            self.disconnect()
            if not away:
                raise
            self._breaker.failed(error)
            if not self._away:  # log an outage once: it may last for hours
                logger.warning("waiting tasks stay here until the broker can be reached: %r", error)
            self._away = True
            raise RetryLater(repr(error), self._breaker.left()) from error
        self._breaker.succeeded()
        if self._away:
            logger.warning("the broker can be reached, waiting tasks go back")
        self._away = False

    def _is_away(self, error: Exception) -> bool:
        known = () if self._connection is None else self._connection.connection_errors
        return isinstance(error, (OSError, OperationalError, *known))

    def _publish(self, message: MessageContent, queue: str, header: str, delay: float) -> None:
        producer = self._connected()
        driver = self._connection.transport.driver_type
        route = route_to(self._app, queue, delay, driver)
        route.prepare(producer.channel)
        producer.publish(
            **publish_arguments(message, route=route, header=header, delay=delay),
            mandatory=driver == "amqp",
            timeout=self._timeout,
            confirm_timeout=self._timeout,
        )

    def _connected(self) -> Any:
        if self._producer is None:
            self._connect()
            amqp = self._connection.transport.driver_type == "amqp"
            self._producer = self._app.amqp.Producer(
                self._connection, auto_declare=False, on_return=_returned if amqp else None
            )
        return self._producer

    def _connect(self) -> None:
        """Try each of the broker's URLs once, with one timeout for all of them."""
        connection = self._connection = self._connection or _confirming(self._app, self._timeout)
        others = max(len(connection.alt) - 1, 0)
        try:
            connection.ensure_connection(max_retries=others, timeout=self._timeout)
        except Exception:
            connection.maybe_switch_next()  # kombu does not, after the last URL or the timeout
            raise


def _returned(exception: Exception, exchange: str, routing_key: str, _message: object) -> None:
    msg = f"the broker has no queue for exchange {exchange!r}, routing key {routing_key!r}"
    raise Returned(msg) from exception


class Unreadable(Exception):
    """The broker has no such queue, or does not let this user read it."""


class Returned(Exception):
    """The broker has no queue for this message."""


def _confirming(app: Celery, timeout: float) -> Any:
    """Return a connection with publisher confirms that never blocks for longer than ``timeout``.

    It leads to the broker that workers read from, as waiting messages must come back to workers. If
    ``broker_write_url`` names another broker, no worker consumes there.
    """
    connection = app.connection_for_read(connect_timeout=timeout)
    options = dict(connection.transport_options)
    if connection.transport.driver_type == "amqp":
        options |= {"confirm_publish": True, "read_timeout": timeout, "write_timeout": timeout}
    elif connection.transport.driver_type == "redis":
        options |= {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    return connection.clone(transport_options=options)
