"""A refused attempt leaves Celery's tracer by a short way, and undoes on it what an end undoes."""

from __future__ import annotations

import gc
import pickle
import weakref
from typing import Any

import pytest
from celery import Celery
from celery.app.trace import build_tracer, fast_trace_task
from celery.signals import task_postrun

from celery_semaphore import LimitedTask
from celery_semaphore.core.permit import Claim
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.headers import HOLDER
from celery_semaphore.worker.pool_process.refused import Disposition


def run(app: Celery, task: Any, *args: Any) -> Any:
    """As a process of the pool runs it; what it answers to the main process."""
    limiter_of(app).serve(None)
    task.__trace__ = build_tracer(task.name, task, app=app)
    request = {HOLDER: "x:1", "id": "x", "delivery_info": {}}
    body: tuple[Any, ...] = (args, {}, {})
    return fast_trace_task("limited", "x", request, body, None, None, _loc=[app.tasks, None, "h"])


def test_a_refusal_is_small_and_ends_as_a_run_does(app: Celery) -> None:
    @app.task(name="limited", base=LimitedTask, semaphore="one", limit=1, shared=False)
    def limited() -> None: ...

    app.finalize()
    task, ended = app.tasks["limited"], []
    store = limiter_of(app).process.store
    store.acquire([Claim("one", None, 1)], "other:1")

    def end(**about: Any) -> None:
        ended.append(about["task_id"])

    task_postrun.connect(end)
    try:
        answer = run(app, task)
    finally:
        task_postrun.disconnect(end)
    failed, info, _ = pickle.loads(pickle.dumps(answer))  # noqa: S301 - as it travels
    assert failed == 1
    assert info.exception.attempt.disposition is Disposition.HOLD_IN_LINE
    assert len(pickle.dumps(answer)) < 1_000
    assert ended == ["x"]
    assert task.request_stack.top is None

    store.release("other:1", [Claim("one", None, 1)])
    assert run(app, task)[0] == 0


def test_a_refusal_is_small_whatever_the_key(app: Celery) -> None:
    @app.task(
        name="limited", base=LimitedTask, semaphore="one", limit=1, key="{argument}", shared=False
    )
    def limited(argument: str) -> None: ...

    app.finalize()
    long = "k" * 100_000
    store = limiter_of(app).process.store
    store.acquire([Claim("one", long, 1)], "other:1")
    answer = run(app, app.tasks["limited"], long)
    (claim,) = answer[1].exception.attempt.claims
    assert claim.resource == Claim("one", long, 1).resource
    assert len(pickle.dumps(answer)) < 1_500


class Argument:
    """Of a call; large perhaps."""


def unanswered(*args: Any) -> None:
    raise StoreUnavailable("hung")


@pytest.mark.parametrize("why", ["saturated", "unanswered"])
def test_a_refusal_keeps_nothing_of_its_call(
    app: Celery, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """In a pool of threads it lies about for as long as any object."""

    @app.task(name="limited", base=LimitedTask, semaphore="one", limit=1, shared=False)
    def limited(argument: Argument) -> None: ...

    app.finalize()
    store = limiter_of(app).process.store
    store.acquire([Claim("one", None, 1)], "other:1")
    if why == "unanswered":
        monkeypatch.setattr(store, "acquire", unanswered)
    argument = Argument()
    freed = weakref.ref(argument)
    answer = run(app, app.tasks["limited"], argument)
    del argument
    gc.collect()
    assert answer[1].exception.attempt.disposition is not Disposition.DROP
    assert freed() is None


def test_a_task_without_limit_has_the_tracer_of_celery(app: Celery) -> None:
    @app.task(name="unlimited", base=LimitedTask, shared=False)
    def unlimited() -> None: ...

    app.finalize()
    task = app.tasks["unlimited"]
    task.__trace__ = trace = build_tracer(task.name, task, app=app)
    assert task.__trace__ is trace


def test_neither_a_body_nor_its_retry_has_headers_of_ours(app: Celery) -> None:
    app.conf.task_default_queue = "retried"  # in memory, where other tests have theirs
    seen = []

    @app.task(name="limited", bind=True, base=LimitedTask, semaphore="one", limit=1, shared=False)
    def limited(self: LimitedTask) -> None:
        seen.append(self.request.headers)
        raise self.retry(countdown=0)

    app.finalize()
    run(app, app.tasks["limited"])
    with app.connection_for_read() as connection:
        retried = connection.SimpleQueue("retried").get(timeout=5)
    assert seen == [{}]
    assert retried.headers["retries"] == 1
    assert [name for name in retried.headers if name.startswith("semaphore")] == []


def test_a_task_that_ends_its_process_does(app: Celery) -> None:
    @app.task(name="limited", base=LimitedTask, semaphore="one", limit=1, shared=False)
    def limited() -> None:
        raise SystemExit(3)

    app.finalize()
    with pytest.raises(SystemExit) as ended:
        run(app, app.tasks["limited"])
    assert ended.value.code == 3
