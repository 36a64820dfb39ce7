"""Limiter: a forked process has a state of its own, and closing waits in bounds."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

from celery import Celery

from celery_semaphore.worker.limiter import limiter_of
from tests.worker.requests import limited


def test_a_fork_has_a_side_of_its_own(app: Celery) -> None:
    limiter = limiter_of(app)
    process = limiter.process
    process.store.epoch = 7
    pid = os.fork()
    if not pid:  # pragma: no cover - in the child
        own = limiter.process is not process and limiter.process.pid == os.getpid()
        os._exit(0 if own and limiter.process.store.epoch == 7 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_the_keeper_of_a_worker_leaves_reaping_to_the_sweeper(app: Celery) -> None:
    app.conf.semaphore_lease = 30.0
    limiter, reaped = limiter_of(app), list[int]()
    store, keeper = limiter.process.store, limiter.process.keeper
    store.reap = lambda limit=100: reaped.append(limit)  # type: ignore[method-assign,assignment,return-value]
    keeper.tick()
    assert reaped == []
    limiter.sweeper.sweep()
    assert reaped == [100]


def test_the_last_step_waits_for_the_broker_in_bounds(app: Celery) -> None:
    limited(app)
    limiter, waited = limiter_of(app), list[float]()
    limiter.mover = cast("Any", SimpleNamespace(flush=waited.append, close=waited.append))
    limiter.close(5.0, flush=0.5)
    assert waited == [0.5, 0.5]
