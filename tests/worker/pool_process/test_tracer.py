"""A limited task has its permit before it enters Celery's tracer: without one, Celery knows of no run."""

from __future__ import annotations

import contextlib
import gc
import pickle
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery, current_task, states
from celery.app import trace
from celery.app.trace import build_tracer, fast_trace_task
from celery.exceptions import Reject
from celery.signals import task_failure, task_postrun, task_prerun

from celery_semaphore import LimitedTask
from celery_semaphore.core.claim import Claim
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.task.signals import permit_acquired
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import HOLDER, REFUSALS
from celery_semaphore.worker.permits.note import NotePipe
from celery_semaphore.worker.pool_process.destination import Destination
from celery_semaphore.worker.pool_process.postrun import watch_ends
from tests.worker.requests import limited

ONE = Claim("one", None, 1)


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("here", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    app.backend.forget("x")  # all apps of this process have one memory
    watch_ends()
    notes = NotePipe()
    limiter_of(app).serve(notes)
    yield app
    notes.close()


@pytest.fixture
def signals() -> Iterator[list[str]]:
    """What Celery sends of a run, and what this library does, in order."""
    sent: list[str] = []
    watched = {
        "prerun": task_prerun,
        "acquired": permit_acquired,
        "failure": task_failure,
        "postrun": task_postrun,
    }
    receivers = {name: lambda name=name, **_: sent.append(name) for name in watched}
    for name, signal in watched.items():
        signal.connect(receivers[name])
    yield sent
    for name, signal in watched.items():
        signal.disconnect(receivers[name])


def run(app: Celery, task: Any, *args: Any, body: Any = None, **headers: Any) -> Any:
    """As a process of the pool runs it; what it answers to the main process."""
    task.__trace__ = build_tracer(task.name, task, app=app)
    request = {HOLDER: "x:1", "id": "x", "delivery_info": {}, **headers}
    body = body or (args, {}, {})
    return fast_trace_task(task.name, "x", request, body, None, None, _loc=[app.tasks, None, "h"])


def free(app: Celery) -> bool:
    return limiter_of(app).process.store.snapshot("one").occupied == 0


def occupy(app: Celery, claim: Claim = ONE) -> None:
    limiter_of(app).process.store.acquire([claim], "other:1")


def test_a_refusal_is_small_and_no_run(
    app: Celery, monkeypatch: pytest.MonkeyPatch, signals: list[str]
) -> None:
    task = limited(app, track_started=True)
    occupy(app)
    answer = run(app, task)
    failed, info, _ = pickle.loads(pickle.dumps(answer))  # noqa: S301 - as it travels
    assert failed == 1
    assert info.exception.attempt.destination is Destination.PUBLISHED
    assert len(pickle.dumps(answer)) < 1_000
    assert signals == []
    assert task.AsyncResult("x").state == states.PENDING
    assert task.request_stack.top is None
    assert not current_task

    store, released = limiter_of(app).process.store, list[str]()
    store.release("other:1", [ONE])
    release = store.release

    def note(holder: str, *args: Any) -> Any:
        released.append(holder)
        return release(holder, *args)

    monkeypatch.setattr(store, "release", note)
    assert run(app, task)[0] == 0
    assert released == ["x:1"]
    assert signals == ["prerun", "acquired", "postrun"]


def test_a_refusal_is_small_whatever_the_key(app: Celery) -> None:
    def body(argument: str) -> None: ...

    task, long = limited(app, body, key="{argument}"), "k" * 100_000
    occupy(app, Claim("one", long, 1))
    answer = run(app, task, long)
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

    def body(argument: Argument) -> None: ...

    task = limited(app, body)
    occupy(app)
    if why == "unanswered":
        monkeypatch.setattr(limiter_of(app).process.store, "acquire", unanswered)
    argument = Argument()
    freed = weakref.ref(argument)
    answer = run(app, task, argument)
    del argument
    gc.collect()
    assert answer[1].exception.attempt.destination is not Destination.DROPPED
    assert freed() is None


class Broken(Exception):
    """Of a callable of the user."""


def broken(*args: Any) -> str:
    raise Broken("no such tenant")


def test_an_error_of_a_callable_is_a_failure(app: Celery, signals: list[str]) -> None:
    task = limited(app, key=broken)
    failed, info, _ = run(app, task)
    assert failed == 1
    assert "raised Broken" in str(info.exception)
    assert signals == ["prerun", "failure", "postrun"]
    result = task.AsyncResult("x")
    assert result.state == states.FAILURE
    assert "in broken" in result.traceback


@pytest.mark.parametrize("error", [Reject("no", requeue=False), SemaphoreError("no")])
def test_an_error_in_the_acquire_ends_as_one_of_the_body(
    app: Celery, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*args: Any) -> None:
        raise error

    task = limited(app)
    monkeypatch.setattr(limiter_of(app).process.store, "acquire", fail)
    failed, info, _ = run(app, task)
    raised = info.exception
    assert (failed, getattr(raised, "exc", raised)) == (1, error)


def test_an_error_keeps_nothing_of_its_call(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    def body(argument: Argument) -> None: ...

    task = limited(app, body, key=broken)
    monkeypatch.setattr(trace.logger, "disabled", True)  # pytest keeps what is logged
    argument = Argument()
    freed = weakref.ref(argument)
    run(app, task, argument)
    del argument
    gc.collect()
    assert freed() is None


def test_an_interrupted_acquire_is_released(
    app: Celery, monkeypatch: pytest.MonkeyPatch, signals: list[str]
) -> None:
    """SIGTERM raises SystemExit wherever the process is."""
    task, store = limited(app), limiter_of(app).process.store
    acquire = store.acquire

    def interrupted(*args: Any) -> None:
        acquire(*args)
        raise SystemExit(3)

    monkeypatch.setattr(store, "acquire", interrupted)
    with pytest.raises(SystemExit):
        run(app, task)
    assert free(app)
    assert signals == []
    assert task.request_stack.top is None
    assert not current_task


@pytest.mark.parametrize("way", ["deduplicated", "undelivered", "no mapping"])
def test_a_permit_is_returned_where_celery_sends_no_end(
    app: Celery, monkeypatch: pytest.MonkeyPatch, signals: list[str], way: str
) -> None:
    """Celery's tracer returns, or raises, before it sends ``task_prerun``."""
    app.conf.worker_deduplicate_successful_tasks = True
    task = limited(app, acks_late=True)
    monkeypatch.setattr(type(app.backend), "persistent", True)
    headers: dict[str, Any] = {"delivery_info": {"redelivered": True}}
    trace.successful_requests.clear()
    if way == "no mapping":
        with pytest.warns(RuntimeWarning, match="not a mapping"):
            run(app, task, body=((), None, {}))
    else:
        app.backend.mark_as_done("x", None)
        if way == "undelivered":
            headers["callbacks"] = ["no signature"]
            with contextlib.suppress(Reject):  # Celery 5.5 does not look at what is linked to it
                run(app, task, **headers)
        else:
            assert run(app, task, **headers)[0] == 0
    assert signals == []
    assert free(app)


def test_a_callable_sees_the_task_that_runs(app: Celery) -> None:
    """And so does the log: Celery writes the id of the current task."""
    seen = []

    def key(*args: Any) -> str:
        seen.append((current_task.name, current_task.request.id, current_task.request.mine))
        return "k"

    task = limited(app, key=key)
    assert run(app, task, mine="m")[0] == 0
    assert seen == [("limited", "x", "m")]


def test_a_task_that_comes_another_way_is_limited(app: Celery, signals: list[str]) -> None:
    """Its tracer is called by no property of ours; Celery takes the refusal for an ignored run."""
    task = limited(app)
    traced = build_tracer(task.name, task, app=app)
    request: dict[str, Any] = {HOLDER: "x:1", "id": "x", "delivery_info": {}}
    assert traced("x", (), {}, dict(request)).info is None
    assert signals == ["prerun", "acquired", "postrun"]
    occupy(app)
    refused = traced("x", (), {}, {**request, HOLDER: "x:2"})
    assert refused.info.state == states.IGNORED
    assert refused.retval.exception.exc.attempt.destination is Destination.PUBLISHED


def test_an_error_of_the_acquire_fails_the_task_whatever_is_assigned_to_it(app: Celery) -> None:
    ran = list[str]()

    def key() -> str:
        raise KeyError

    def body() -> None:
        ran.append("body")

    task = limited(app, body, key=key)
    task.before_start = lambda *_: ran.append("before_start")
    failed, info, _ = run(app, task)
    assert failed == 1
    assert isinstance(info.exception, SemaphoreError)
    assert ran == []


def test_a_task_without_limit_has_the_tracer_of_celery(app: Celery) -> None:
    task = limited(app, semaphore=None, limit=None)
    task.__trace__ = traced = build_tracer(task.name, task, app=app)
    assert task.__trace__ is traced


def test_neither_a_body_nor_its_retry_has_headers_of_ours(app: Celery) -> None:
    app.conf.task_default_queue = "retried"  # in memory, where other tests have theirs
    seen = []

    def body(self: LimitedTask) -> None:
        seen.append(self.request.headers)
        raise self.retry(countdown=0)

    run(app, limited(app, body, bind=True), **{REFUSALS: 2, "delivery_info": {}})
    with app.connection_for_read() as connection:
        retried = connection.SimpleQueue("retried").get(timeout=5)
    assert seen == [{}]
    assert retried.headers["retries"] == 1
    assert [name for name in retried.headers if name.startswith("semaphore")] == []


def test_a_task_that_ends_its_process_does(app: Celery) -> None:
    def body() -> None:
        raise SystemExit(3)

    task = limited(app, body)
    with pytest.raises(SystemExit) as ended:
        run(app, task)
    assert ended.value.code == 3
