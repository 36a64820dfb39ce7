"""A task ends in a process of the pool while its store is away: see worker/pool_process/postrun.py."""

from __future__ import annotations

import select
from typing import Any

import pytest
from celery import Celery
from celery.worker.request import Request

from celery_semaphore import LimitedTask
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import HandedOn
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import HOLDER
from celery_semaphore.worker.permits.note import NotePipe
from celery_semaphore.worker.pool_process import postrun

from ..requests import request_of

ONE = Claim("one", None, 1)


@pytest.fixture
def task() -> Any:
    app = Celery("local", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"

    @app.task(name="limited", base=LimitedTask, semaphore="one", limit=1, shared=False)
    def limited() -> None: ...

    app.finalize()
    return app.tasks["limited"]


@pytest.mark.parametrize("known", [False, True])
def test_what_cannot_be_given_back_is_renewed_no_more(
    task: Any, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """Also where it is known that the store is away, so that it is not asked."""
    limiter, notes, asked = limiter_of(task.app), NotePipe(), list[str]()
    limiter.serve(notes)
    process = limiter.process

    def release(holder: str, *_: Any) -> Any:
        asked.append(holder)
        raise StoreUnavailable("hung")

    monkeypatch.setattr(process.store, "release", release)
    task.push_request(**{HOLDER: "x:1", "id": "x", "called_directly": False, "is_eager": False})
    task.before_start("x", (), {})
    limiter.drain()
    assert list(process.keeper._kept) == ["x:1"]
    if known:
        process.breaker.failed(StoreUnavailable("hung"))
    postrun._release(task, "SUCCESS")
    limiter.drain()
    assert list(process.keeper._kept) == []
    assert asked == ([] if known else ["x:1"])
    notes.close()


@pytest.mark.parametrize("waits", [False, True])
def test_the_loop_is_woken_for_what_a_release_granted(task: Any, waits: bool) -> None:
    """The wait begins at once if its message is kept here; without one the wake-up would cost each task."""
    limiter, notes, handed = limiter_of(task.app), NotePipe(), list[HandedOn]()
    limiter.serve(notes)
    store = limiter.process.store
    limiter.process.ledger._handed_on = handed.append
    task.push_request(**{HOLDER: "x:1", "id": "x", "called_directly": False, "is_eager": False})
    task.before_start("x", (), {})
    if waits:
        store.ask("session")
        assert isinstance(
            store.acquire([ONE], "y:1", Wait(Kind.REQUEUE, session="session")), Refusal
        )
    limiter.waker.clear()  # of what the start of the task rang for
    postrun._release(task, "SUCCESS")
    assert bool(select.select([limiter.waker], [], [], 0.0)[0]) == waits
    limiter.drain()
    assert handed == [HandedOn(granted=frozenset({"y:1"} if waits else ()))]
    notes.close()


@pytest.mark.parametrize(
    ("late", "state", "over"),
    [(True, "SUCCESS", True), (True, None, False), (False, "SUCCESS", False)],
)
def test_what_was_cut_off_is_not_over(
    task: Any, monkeypatch: pytest.MonkeyPatch, late: bool, state: str | None, over: bool
) -> None:
    """It is cancelled, and runs again. With early acks nobody asks."""
    task.acks_late = late
    limiter, notes, noted = limiter_of(task.app), NotePipe(), list[str]()
    limiter.serve(notes)
    monkeypatch.setattr(limiter.process.ledger, "over", noted.append)
    task.push_request(**{HOLDER: "x:1", "id": "x", "called_directly": False, "is_eager": False})
    task.before_start("x", (), {})
    postrun._release(task, state)
    limiter.drain()
    assert noted == (["x:1"] if over else [])
    notes.close()


@pytest.mark.parametrize("over", [False, True])
def test_a_task_whose_body_is_over_is_not_cancelled(
    task: Any, monkeypatch: pytest.MonkeyPatch, over: bool
) -> None:
    """A cold shutdown finds it while its process gives the permit back: with late acks it would run twice."""
    cancelled: list[str] = []
    monkeypatch.setattr(Request, "cancel", lambda self, *_, **__: cancelled.append(self.id))
    task.acks_late = True
    limiter, notes = limiter_of(task.app), NotePipe()
    limiter.serve(notes)
    request = request_of(task)
    notes.asked(request.holder, [Claim("one", None, 1)])
    if over:
        notes.over(request.holder)
    request.cancel(None)
    assert cancelled == ([] if over else [request.id])
    notes.close()
