"""A day in the life of a cluster: what happens to it, and what must be true of it afterwards."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from tests.support.counter import Counter
from tests.support.process import wait_until

from .feeder import Feeder
from .fleet import Fleet
from .judge import ADMITTED_S, TAKE_UP_S, Bound, Findings, Judge, Kind, bounds
from .kinds import PLAIN, RESOURCES, WAITS
from .places import Left, Place, RabbitBroker, ValkeyBroker
from .said import said

LEASE_S = 6.0
# Of one deploy after the other. A limit is in force alone for a short time only, before the next deploy; the lowest
# one lets the fewest in then, so the day begins with it.
LIMITS = (1, 3, 2, 4)


@dataclass(frozen=True)
class Plan:
    """What happens, and after how many restarts."""

    restarts: int
    tasks: int  # short and limited
    scales: dict[int, int] = field(default_factory=dict)  # restart → workers
    broker: tuple[int, ...] = ()
    store: tuple[int, ...] = ()
    settle: float = 60.0  # seconds, for the last tasks
    backlog: Mapping[str, int] = field(
        default_factory=lambda: dict.fromkeys(WAITS, 40) | {PLAIN: 6}
    )
    body: float = 0.05  # seconds that a short task takes
    deploy_every: int = 8  # restarts
    completes: bool = (
        False  # whether a deploy is over, and its limit alone in force, before the next
    )


@dataclass
class Day:
    """One broker, one store, some workers."""

    plan: Plan
    broker: Place
    store: Place
    counter: Counter
    counter_env: dict[str, str]
    chance: random.Random
    concurrency: int = 4
    away: list[tuple[float, float]] = field(default_factory=list)  # the broker

    def __post_init__(self) -> None:
        self.counter.reset()
        conf: dict[str, Any] = {
            "worker_prefetch_multiplier": 2,
            "semaphore_lease": LEASE_S,
            "semaphore_take_up": TAKE_UP_S,
            **self.broker.conf,
        }
        env = {"BROKER": self.broker.url, "STORE": self.store.url, **self.counter_env}
        self.client = Celery("client", broker=self.broker.url)
        self.client.conf.update(self.broker.conf)
        if self.broker.url.startswith("amqp"):
            self.client.conf.broker_transport_options = {"confirm_publish": True}
        self.feeder = Feeder(
            self.client,
            self.counter,
            self.plan.backlog,
            self.chance,
            body=self.plan.body,
            delayed=self.broker_delays,
        )
        self.fleet = Fleet(
            env, conf, limit=LIMITS[0], concurrency=self.concurrency, chance=self.chance
        )
        self.began = time.monotonic()

    @property
    def broker_delays(self) -> bool:
        """Tell whether the broker keeps what is delayed."""
        return isinstance(self.broker, RabbitBroker) and self.broker.delays

    def live(self) -> None:
        """Start, feed and restart, until there were enough restarts and tasks."""
        plan, done = self.plan, 0
        self.fleet.scale(3)
        self.feeder.start()
        while done < plan.restarts or (
            self.feeder.limited() < plan.tasks and done < 4 * plan.restarts
        ):
            if done in plan.scales:
                self.fleet.scale(plan.scales[done])
            if done in plan.broker:
                self._restart_broker()
            if done in plan.store:
                self._restart(self.store)
            if plan.completes and done and done % plan.deploy_every == 0:
                self.fleet.complete_deploy(TAKE_UP_S + 2 * ADMITTED_S)
            self.fleet.limit = LIMITS[done // plan.deploy_every % len(LIMITS)]
            self.fleet.restart()
            done += 1
        self.feeder.stop()

    def _restart(self, place: Place) -> tuple[float, float]:
        began = time.monotonic()
        place.stop_politely()
        place.start()
        return began, time.monotonic()

    def _restart_broker(self) -> None:
        with self.feeder.paused():
            self.away.append(self._restart(self.broker))

    def finish(self) -> Left:
        """Let what is left be done, end the workers, and return what still lies somewhere."""
        with contextlib.suppress(TimeoutError):  # what is left then is looked at once more
            wait_until(
                lambda: not (self.broker.left() or self.store.left()),
                self.plan.settle,
                interval=0.5,
            )
        self.fleet.finish()
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: not self.store.left(), LEASE_S + 2)
        return self.broker.left() | self.store.left()

    def judge(self) -> tuple[dict[Kind, Findings], dict[str, list[Bound]]]:
        """Return what became of the tasks, and how many were inside beside what may be."""
        logs = {resource: self.counter.log(resource) for resource in RESOURCES}
        judge = Judge(
            self.fleet.lives,
            said(self.fleet.logs()),
            self.away,
            self.broker.record() if isinstance(self.broker, ValkeyBroker) else None,
            broker_delays=self.broker_delays,
        )
        findings = judge.findings(self.feeder.sent, logs)
        return findings, {wait: bounds(logs[wait], self.fleet.lives) for wait in WAITS}

    def close(self) -> None:
        self.fleet.discard()
