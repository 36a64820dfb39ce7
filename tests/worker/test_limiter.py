"""Limiter: a forked process has a state of its own, and closing waits in bounds."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery import Celery

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.store import HandedOn, Outgoing, Store
from celery_semaphore.stores.memory import MemoryStore
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


def test_a_fork_brings_the_lease_that_its_parent_learnt(app: Celery) -> None:
    """Also where the parent made no other call than the check at its start: else each child warns as well."""
    limiter = limiter_of(app)
    limiter.process.store.in_force = (60_000_000, 60_000_000)
    assert limiter.process.store.epoch is None
    pid = os.fork()
    if not pid:  # pragma: no cover - in the child
        os._exit(0 if limiter.process.store.lease == 60 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_the_keeper_of_a_worker_leaves_reaping_to_the_sweeper(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    reaped: list[int] = []

    def noted(_: MemoryStore, limit: int = 100) -> Outgoing:
        reaped.append(limit)
        return frozenset()

    monkeypatch.setattr(MemoryStore, "reap", noted)
    app.conf.semaphore_url = "memory://"
    limiter = limiter_of(app)
    limiter.process.keeper.tick()
    assert reaped == []
    limiter.sweeper.sweep()
    assert reaped == [100]


def test_the_keeper_of_a_worker_declares_its_limits(app: Celery) -> None:
    """Also when it has no permit, and not once the worker has ended."""
    app.conf.semaphore_url = "memory://"
    limiter, declared = limiter_of(app), list[Store]()
    limiter.worker.declare = declared.append
    keeper, store = limiter.process.keeper, limiter.process.measured
    keeper.tick()
    assert declared == [store]
    limiter.close(0.1, flush=0.1)
    limiter.process.keeper.tick()
    assert declared == [store]


@pytest.mark.parametrize("who", ["its process", "the main process"])
def test_a_release_reaches_what_is_kept(
    app: Celery, monkeypatch: pytest.MonkeyPatch, who: str
) -> None:
    """In the worker's main process only: a child has a copy of what is kept, and no loop."""
    limiter, handed, begun = limiter_of(app), HandedOn(granted=frozenset({"b"})), list[Any]()
    limiter.worker.kept = cast("Any", SimpleNamespace(begin_granted=begun.append))
    limiter.handed_on(handed)
    assert begun == []
    limiter.serve(None)
    process = limiter.process
    monkeypatch.setattr(process.store, "release", lambda *_: handed)
    if who == "its process":
        process.ledger.released("a", handed)
    else:
        process.ledger.asked("a", [Claim("one", None, 1)])
        process.ledger.ended("a")
        process.releaser._step()
    assert begun == [{"b"}]


def test_the_next_worker_makes_no_calls_of_this_one(app: Celery) -> None:
    limiter, calls = limiter_of(app), list[str]()
    limiter.in_loop(lambda: calls.append("called"))
    limiter.close(1.0, flush=0.1)
    limiter.on_wake()
    assert calls == []


def test_the_last_step_waits_for_the_broker_in_bounds(app: Celery) -> None:
    limited(app)
    limiter, waited = limiter_of(app), list[float]()
    limiter.mover = cast("Any", SimpleNamespace(flush=waited.append, close=waited.append))
    limiter.close(5.0, flush=0.5)
    assert waited == [0.5, 0.5]
