"""Publisher: puts the messages of waiting tasks back, with confirms, in a thread of its own.

A message is acknowledged only after the broker confirmed that it has the new one. A crash between
the two leaves both with the broker, never neither.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any, Protocol

from .headers import sent_back
from .message import publication
from .route import Unroutable, route_to

logger = logging.getLogger(__name__)

AGAIN = 0.2  # seconds until the second attempt; twice as long until each one after it


class Waiting(Protocol):
    """A request whose message shall come back."""

    id: str
    holder: str
    message: Any

    def came_from(self) -> str:
        """The name of its queue; raises ``Unroutable``."""

    def may_go_back(self) -> bool:
        """Whether a new message would be the only one."""

    def went_back(self) -> None:
        """The broker has the new message: acknowledge the old one."""

    def came_to_nothing(self) -> None:
        """It could not be published: give the old message back to the broker."""


@dataclass(slots=True, order=True)
class _Errand:
    due: float  # when to try, the first time at once
    request: Waiting = field(compare=False)
    ticket: str | None = field(compare=False)
    delay: float = field(compare=False)
    since: float = field(compare=False)
    attempts: int = field(default=0, compare=False)


class Publisher:
    """One thread with a connection of its own to the broker."""

    def __init__(self, app: Any, timeout: float, done: Callable[[], None]) -> None:
        self._app = app
        self._timeout = timeout
        self._done = done
        self._errands: list[_Errand] = []  # a heap
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._connection: Any = None
        self._producer: Any = None
        self._thread: threading.Thread | None = None

    def put_back(self, request: Waiting, ticket: str | None, delay: float) -> None:
        """Publish this message again, to come back after so many seconds."""
        now = time.monotonic()
        with self._changed:
            heappush(self._errands, _Errand(now, request, ticket, delay, now))
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._run, name="celery-semaphore-publisher", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def flush(self, timeout: float) -> None:
        """Wait until all is published, so many seconds at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._errands and not self._busy, timeout)

    def close(self) -> None:
        """End the thread; what was not published stays with the broker, unacknowledged."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(self._timeout)

    def _run(self) -> None:
        while (errand := self._next()) is not None:
            try:
                self._go(errand)
            except Exception:
                # The message stays unacknowledged; the other errands go on.
                logger.exception("task %s was not put back", errand.request.id)
            finally:
                with self._changed:
                    self._busy = False
                    self._changed.notify_all()
                self._done()
        self._disconnect()

    def _next(self) -> _Errand | None:
        """The errand that is due first, once it is; None when this is closed."""
        with self._changed:
            while not self._closed:
                pause = self._errands[0].due - time.monotonic() if self._errands else None
                if pause is not None and pause <= 0:
                    self._busy = True
                    return heappop(self._errands)
                self._changed.wait(pause)
        return None

    def _go(self, errand: _Errand) -> None:
        if not errand.request.may_go_back():
            logger.info("task %s is delivered again, not put back", errand.request.id)
            return
        try:
            self._publish(errand)
        except Exception as error:  # noqa: BLE001 - _failed says so in the log
            if not isinstance(error, Unroutable):
                self._disconnect()
            self._failed(errand, error)
        else:
            errand.request.went_back()

    def _failed(self, errand: _Errand, error: Exception) -> None:
        """Try again later; at last the broker shall deliver the message again, perhaps to another."""
        now = time.monotonic()
        if now - errand.since > self._timeout:
            logger.error("task %s could not be put back", errand.request.id, exc_info=error)
            errand.request.came_to_nothing()
            return
        logger.warning("task %s not put back yet: %r", errand.request.id, error)
        errand.due = now + AGAIN * 2 ** (errand.attempts - 1)
        with self._changed:
            heappush(self._errands, errand)

    def _publish(self, errand: _Errand) -> None:
        request, errand.attempts = errand.request, errand.attempts + 1
        producer = self._connected()
        driver = self._connection.transport.driver_type
        # The time spent here is part of the delay.
        delay = max(errand.delay - (time.monotonic() - errand.since), 0.0)
        ticket = sent_back(request.holder, errand.attempts, errand.ticket)
        route = route_to(self._app, request.came_from(), delay, driver)
        route.prepare(producer.channel)
        message = publication(request.message, route=route, ticket=ticket, delay=delay)
        producer.publish(
            **message,
            mandatory=driver == "amqp",
            timeout=self._timeout,
            confirm_timeout=self._timeout,
        )

    def _connected(self) -> Any:
        if self._producer is None:
            self._connection = _confirming(self._app, self._timeout)
            self._connection.ensure_connection(max_retries=1, timeout=self._timeout)
            amqp = self._connection.transport.driver_type == "amqp"
            self._producer = self._app.amqp.Producer(
                self._connection, auto_declare=False, on_return=_returned if amqp else None
            )
        return self._producer

    def _disconnect(self) -> None:
        connection, self._connection, self._producer = self._connection, None, None
        if connection is not None:
            try:
                connection.collect()
            except Exception as error:  # noqa: BLE001 - whatever it is, the connection is given up
                logger.debug("closing a broken connection: %r", error)


class _Returned(Exception):
    """The broker has no queue for this message."""


def _returned(exception: Any, exchange: str, routing_key: str, _message: Any) -> None:
    msg = f"the broker has no queue for exchange {exchange!r}, routing key {routing_key!r}"
    raise _Returned(msg) from exception


def _confirming(app: Any, timeout: float) -> Any:
    """A connection that confirms what it publishes and never blocks for longer than ``timeout``."""
    connection = app.connection_for_write(connect_timeout=timeout)
    options = dict(connection.transport_options)
    if connection.transport.driver_type == "amqp":
        options |= {"confirm_publish": True, "read_timeout": timeout, "write_timeout": timeout}
    elif connection.transport.driver_type == "redis":
        options |= {"socket_timeout": timeout, "socket_connect_timeout": timeout}
    return connection.clone(transport_options=options)
