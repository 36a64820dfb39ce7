"""Fleet: workers that are restarted one after the other, as by a deploy, and their lives."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tests.support.process import wait_until
from tests.support.worker import CeleryWorker

WAYS = ("TERM", "QUIT", "TERM then QUIT", "soft")
SOFT_TIMEOUT_S = 1.0
END_TIMEOUT_S = 15.0  # the longest task, and what a worker may need to give everything back
MOST_LEAVING = 4  # workers that end at the same time
PERMITS = 10  # that a worker had when it works
WORKS_TIMEOUT_S = 5.0  # it may have to wait for a broker or a store, or for those before it


@dataclass(eq=False)
class Life:
    """One worker process from its start to its end, by the clock of `time.monotonic()`."""

    worker: CeleryWorker
    way: str  # how it will be ended
    limit: int  # what its limited tasks declare
    began: float = field(default_factory=time.monotonic)
    told: float | None = None  # when it was told to end
    cold: float | None = None  # when it was told to cut what runs
    gone: float | None = None
    hung: bool = False  # it had to be killed, as a supervisor does after its patience
    crashed: bool = False  # it was gone before it was told to end

    def end(self, pause: float) -> None:
        """End it in its way, and wait until it is gone."""
        if not self.worker.running():
            self.crashed = True
            self.told = self.cold = self.gone = self._last_word()
            return
        self.told = time.monotonic()
        if self.way.startswith("TERM"):
            self.worker.warm()
        if self.way == "TERM then QUIT":
            time.sleep(pause)  # the operator's impatience, not a wait for anything
        if self.way != "TERM" and self.worker.running():
            self.cold = time.monotonic()
            self.worker.cold()
        self._wait()
        self.gone = time.monotonic()

    def _last_word(self) -> float:
        """Return when it logged for the last time."""
        return time.monotonic() - (time.time() - self.worker.log_file.stat().st_mtime)

    def _wait(self) -> None:
        try:
            self.worker.wait(END_TIMEOUT_S)
        except TimeoutError:
            self.hung = True
            self.cold = self.cold or time.monotonic()
            self.worker.signal(signal.SIGABRT)  # the log then shows where each thread hangs
            self.worker.wait()


class Fleet:
    """Starts the successor before or right after the oldest worker is told to end."""

    def __init__(
        self,
        env: Mapping[str, str],
        conf: Mapping[str, Any],
        *,
        limit: int,
        concurrency: int,
        chance: random.Random,
    ) -> None:
        self.limit = limit  # of the next worker that starts
        self.lives: list[Life] = []
        self.running: list[Life] = []
        self.restarts: list[str] = []  # by which way
        self._env = dict(env)
        self._conf = dict(conf)
        self._concurrency = concurrency
        self._chance = chance
        self._ways: list[str] = []
        self._leaving: list[Future[None]] = []
        self._executor = ThreadPoolExecutor(max_workers=16)

    def scale(self, size: int) -> None:
        """Start workers, or end the oldest ones, until there are so many."""
        new = [self._launch() for _ in range(size - len(self.running))]
        for life in new:
            life.worker.wait_ready()
        while len(self.running) > size:
            self._end(self.running[0])

    def restart(self) -> None:
        """Replace the oldest worker; mostly, as a deploy does, by one that works before the next is replaced."""
        old, surge = self.running[0], self._chance.random() < 0.5
        if not surge:
            self._end(old)
        new = self._launch()
        new.worker.wait_ready()
        if surge:
            self._end(old)
        self.restarts.append(old.way)
        if self._chance.random() < 0.75:
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: new.worker.log().count("noted ") >= PERMITS, WORKS_TIMEOUT_S)

    def complete_deploy(self, granted_s: float) -> None:
        """Let the limit of the workers that run be in force alone, and each of them have some permits then.

        What older workers were granted may be taken up for some seconds after they are gone.
        """
        for future in list(self._leaving):
            future.result()
        alone = time.monotonic() + granted_s
        wait_until(lambda: time.monotonic() > alone, granted_s + WORKS_TIMEOUT_S)
        before = self._permits()
        with contextlib.suppress(TimeoutError):
            wait_until(
                lambda: all(
                    now >= had + PERMITS for had, now in zip(before, self._permits(), strict=True)
                ),
                WORKS_TIMEOUT_S,
            )

    def _permits(self) -> list[int]:
        """Count those that each running worker has had."""
        return [life.worker.log().count("noted ") for life in self.running]

    def finish(self) -> None:
        """End all that run, each in its way, and wait until all are gone."""
        for life in list(self.running):
            self._end(life)
        for future in self._leaving:
            future.result()

    def logs(self) -> list[tuple[Life, str]]:
        return [(life, life.worker.log()) for life in self.lives]

    def story(self, *words: str) -> str:
        """Return the lines of all workers that speak of one of these."""
        return "\n".join(
            f"{life.worker.hostname} ({life.way}): {line}"
            for life, log in self.logs()
            for line in log.splitlines()
            if any(word in line for word in words)
        )

    def discard(self) -> None:
        self._executor.shutdown(cancel_futures=True)
        if "ROLLING_LOGS" in os.environ:
            for life in self.lives:
                shutil.copy(life.worker.log_file, os.environ["ROLLING_LOGS"])
        for life in self.lives:
            life.worker.discard()

    def _launch(self) -> Life:
        way = self._next_way()
        conf = self._conf | (
            {"worker_soft_shutdown_timeout": SOFT_TIMEOUT_S} if way == "soft" else {}
        )
        env = self._env | {"CONF": json.dumps(conf), "LIMIT": str(self.limit)}
        name = f"w{len(self.lives)}"
        worker = CeleryWorker(
            "tests.soak.rolling_app", name=name, concurrency=self._concurrency, env=env
        )
        life = Life(worker, way, self.limit)
        worker.launch()
        self.lives.append(life)
        self.running.append(life)
        return life

    def _next_way(self) -> str:
        """Each way as often as the others, in an order that nothing can expect."""
        if not self._ways:
            self._ways = self._chance.sample(WAYS, len(WAYS))
        return self._ways.pop()

    def _end(self, life: Life) -> None:
        self.running.remove(life)
        while len(leaving := [f for f in self._leaving if not f.done()]) >= MOST_LEAVING:
            leaving[0].result()
        pause = self._chance.uniform(0.0, 0.5)
        self._leaving.append(self._executor.submit(life.end, pause))
