"""Feeder: keeps so many tasks under way, the whole time."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from celery import Celery

from tests.support.counter import Counter

from .kinds import ACKS, PLAIN, Sent

TICK_S = 0.05
LONG_S = (1.5, 3.0)
LONG_EVERY = 100  # one of so many tasks is a long one
DELAY_S = 1  # of plain tasks that the broker delays
DELAYED_EVERY = 10  # one of so many plain tasks is delayed


class Feeder(threading.Thread):
    """Sends a task as soon as one of its resource has begun to run."""

    def __init__(
        self,
        app: Celery,
        counter: Counter,
        backlog: Mapping[str, int],
        chance: random.Random,
        *,
        body: float,
        delayed: bool = False,
    ) -> None:
        super().__init__(name="feeder", daemon=True)
        self.sent: dict[str, Sent] = {}
        self._app = app
        self._counter = counter
        self._backlog = backlog
        self._chance = chance
        self._body = body
        self._delayed = delayed
        self._by_resource: Tally[str] = Tally()
        self._may_send = threading.Lock()
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._producer: Any = None

    def limited(self) -> int:
        """How many short limited tasks were sent."""
        return sum(not s.is_plain and s.seconds == self._body for s in list(self.sent.values()))

    def run(self) -> None:
        try:
            while not self._stopped.wait(TICK_S):
                with self._may_send:
                    self._fill()
        except BaseException as error:  # noqa: BLE001 - raised in the test by stop()
            self._error = error

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Send nothing: an answer that the broker could not give would be a task sent twice."""
        with self._may_send:
            self._disconnect()
            yield

    def stop(self) -> None:
        """Send no more, and raise what stopped it before."""
        self._stopped.set()
        self.join()
        self._disconnect()
        if self._error:
            raise self._error

    def _fill(self) -> None:
        began = self._counter.began()
        for resource, most in self._backlog.items():
            for _ in range(most - self._by_resource[resource] + began.get(resource, 0)):
                self._send(resource)

    def _send(self, resource: str) -> None:
        self._by_resource[resource] += 1
        chance, acks = self._chance, self._chance.choice(ACKS)
        is_long = self._by_resource[resource] % LONG_EVERY == 0
        seconds = chance.uniform(*LONG_S) if is_long else self._body
        name, given = f"{resource} {acks}", (resource, seconds)
        delay = self._delay(resource)
        result: Any = self._app.send_task(
            name, given, producer=self._connected(), countdown=delay or None
        )
        self.sent[result.id] = Sent(resource, acks, seconds, time.monotonic(), delay)

    def _delay(self, resource: str) -> int:
        """Return for how long this one is delayed, so that plain tasks too are in the broker's delay queues."""
        is_delayed = self._delayed and resource == PLAIN
        return DELAY_S if is_delayed and self._by_resource[resource] % DELAYED_EVERY == 0 else 0

    def _connected(self) -> Any:
        if self._producer is None:
            self._producer = self._app.amqp.Producer(self._app.connection_for_write())
        return self._producer

    def _disconnect(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.connection.release()
