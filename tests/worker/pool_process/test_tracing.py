"""Packages that trace tasks see one run of a task, however often it was refused, and what it waited."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.result import AsyncResult
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.pool_process import acquired, tracing
from celery_semaphore.worker.pool_process.acquired import Acquired
from celery_semaphore.worker.pool_process.tracing import put_on_span
from tests.support.lines import whole_lines
from tests.support.process import wait_until

from ..conftest import Site
from ..requests import limited

ALL_THREE = {acquired.WAIT_SECONDS, acquired.SEMAPHORE, acquired.ATTEMPTS}
WAYS: dict[str, dict[str, Any]] = {
    "kept": {},
    "published": {"semaphore_keep": False},
    "parked": {"semaphore_on_saturated": "park"},
}
CLOCKS_S = 0.2  # between the store's clock and this process's


class Traced:
    """A site with a worker that is traced, and what the package there would have sent."""

    def __init__(self, site: Site, path: Path) -> None:
        self.site, self._path = site, path

    def start(self, by: str, way: str = "kept", **options: Any) -> Any:
        env = {"TRACED_FILE": str(self._path), "TRACED_BY": by}
        conf = {"task_track_started": True, **WAYS[way]}
        options = {"concurrency": 2, **options}
        return self.site.start(app="tests.worker.traced", env=env, conf=conf, **options)

    def sent(self, **which: Any) -> list[dict[str, Any]]:
        found = [json.loads(line) for line in whole_lines(self._path)]
        return [each for each in found if which.items() <= each.items()]

    def signals(self, result: AsyncResult) -> list[str]:
        return [each["signal"] for each in self.sent(package="celery", id=result.id)]

    def attempts(self, worker: Any, result: AsyncResult) -> int:
        """How often it came to a process of the pool, by its log."""
        log = worker.log()
        waits = f"[{result.id}] waits ", f"[{result.id}] is parked: "
        return 1 + sum(log.count(each) for each in waits)


@pytest.fixture
def traced(site: Site, tmp_path: Path) -> Traced:
    return Traced(site, tmp_path / "traced")


def known_here(*args: Any) -> None:
    """Stand for a task of the worker: its instrumentation ends the span of no task that a sender does not know."""


class Sender:
    """An instrumented process that sends tasks, each from a span of its own."""

    def __init__(self, site: Site, tracer: trace.Tracer) -> None:
        self._site, self._tracer = site, tracer

    def send(self, name: str, *args: Any) -> tuple[AsyncResult, int]:
        """Send a task, and return its result with the trace that it belongs to."""
        task = self._site.client.task(name=name, shared=False)(known_here)
        with self._tracer.start_as_current_span("sender") as span:
            result = task.apply_async(args)
        self._site.results.append(result)
        return result, span.get_span_context().trace_id


@pytest.fixture
def sender(site: Site) -> Iterator[Sender]:
    provider, instrumentor = TracerProvider(), CeleryInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield Sender(site, provider.get_tracer("sender"))
    instrumentor.uninstrument()


POOLS = [("prefork", "opentelemetry"), ("threads", "opentelemetry at once")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("pool", "by"), POOLS, ids=["prefork", "threads"])
def test_a_run_is_one_span_however_often_it_was_refused(
    traced: Traced, sender: Sender, pool: str, by: str, way: str
) -> None:
    site, begun = traced.site, time.time()
    worker = traced.start(by, way, pool=pool)
    site.occupy()
    sent = [sender.send("hold", 0.0) for _ in range(3)]
    wait_until(lambda: site.waiting() == 3, 20, "all wait")
    assert {result.state for result, _ in sent} == {"PENDING"}, "none has started"
    waiting = time.time()
    wait_until(lambda: time.time() > waiting + 1.0, 5, "a second")
    let_go = time.time()
    site.let_go()
    for result, trace_id in sent:
        result.get(timeout=30)
        wait_until(lambda at=trace_id: traced.sent(trace=at), 10, "its span")  # type: ignore[misc]
        (span,) = traced.sent(trace=trace_id)
        assert (span["name"], span["status"]) == ("run/hold", "UNSET")
        assert span["parent"] is not None
        attributes = span["attributes"]
        assert attributes[acquired.SEMAPHORE] == "one"
        assert attributes[acquired.ATTEMPTS] == traced.attempts(worker, result) > 1
        waited = attributes[acquired.WAIT_SECONDS]
        assert let_go - waiting - CLOCKS_S < waited < time.time() - begun + CLOCKS_S
        assert traced.signals(result) == ["prerun", "postrun"]


def test_a_run_without_a_wait(traced: Traced, sender: Sender) -> None:
    traced.start("opentelemetry")
    result, trace_id = sender.send("both", "a")
    result.get(timeout=20)
    wait_until(lambda: traced.sent(trace=trace_id), 10, "its span")
    (span,) = traced.sent(trace=trace_id)
    found = {name: span["attributes"].get(name) for name in ALL_THREE}
    assert found == {
        acquired.WAIT_SECONDS: 0.0,
        acquired.SEMAPHORE: "total,each",
        acquired.ATTEMPTS: 1,
    }


def test_a_retry_is_another_wait(traced: Traced, sender: Sender) -> None:
    """It has a span of its own, as any run, and counts from one."""
    site = traced.site
    worker = traced.start("opentelemetry")
    site.occupy()
    result, trace_id = sender.send("early", "retry", "w")
    wait_until(lambda: site.waiting() == 1, 20, "it waits")
    site.let_go()
    result.get(timeout=20)
    runs = "run/early"
    wait_until(lambda: len(traced.sent(trace=trace_id, name=runs)) == 2, 10, "its spans")
    first, second = traced.sent(trace=trace_id, name=runs)
    attempts = [each["attributes"][acquired.ATTEMPTS] for each in (first, second)]
    assert attempts[0] > 1
    # The retry may come before the permit of the first run is back.
    assert sum(attempts) == traced.attempts(worker, result) + 1


def test_tasks_that_end_without_a_permit(traced: Traced, sender: Sender) -> None:
    """A dropped one never ran; one that failed for want of a permit is a failed run."""
    site = traced.site
    traced.start("opentelemetry", concurrency=3)
    site.occupy()
    dropped, dropped_trace = sender.send("dropped", "w")
    failing, failing_trace = sender.send("failing", "w")
    wait_until(lambda: dropped.state == "REVOKED", 20, "it is dropped")
    wait_until(lambda: failing.state == "FAILURE", 20, "it fails")
    wait_until(lambda: traced.sent(trace=failing_trace), 10, "its span")
    assert [span["status"] for span in traced.sent(trace=failing_trace)] == ["ERROR"]
    assert traced.sent(trace=dropped_trace) == []
    assert traced.signals(dropped) == []
    site.let_go()


@pytest.mark.parametrize("way", WAYS)
def test_sentry_knows_of_no_refusal(traced: Traced, way: str) -> None:
    site, trace_id = traced.site, uuid4().hex
    worker = traced.start("sentry", way)
    site.occupy()
    header = {"sentry-trace": f"{trace_id}-{uuid4().hex[:16]}-1"}
    result = site.send("hold", 0.0, headers={**header, "headers": header})
    wait_until(lambda: site.waiting() == 1, 20, "it waits")
    site.let_go()
    result.get(timeout=30)
    wait_until(lambda: len(traced.sent(package="sentry")) == 2, 10, "a transaction of each")
    assert {each["type"] for each in traced.sent(package="sentry")} == {"transaction"}
    contexts = [each["content"]["contexts"]["trace"] for each in traced.sent(package="sentry")]
    (context,) = [each for each in contexts if each["trace_id"] == trace_id]
    assert context["status"] == "ok"
    data = context["data"]
    assert data[acquired.ATTEMPTS] == traced.attempts(worker, result) > 1
    assert data[acquired.SEMAPHORE] == "one"
    assert data[acquired.WAIT_SECONDS] > 0.0


def test_sentry_sees_no_error_of_an_acquire(traced: Traced) -> None:
    """It looks at bodies alone: docs/howto/beside-other-packages.md says what to do."""
    site = traced.site
    traced.start("sentry")
    site.occupy()
    failing = site.send("failing", "w")
    wait_until(lambda: failing.state == "FAILURE", 20, "it fails")
    wait_until(lambda: traced.sent(package="sentry"), 10, "its transaction")
    (sent,) = traced.sent(package="sentry")
    assert (sent["type"], sent["content"]["contexts"]["trace"]["status"]) == ("transaction", "ok")
    site.let_go()


def test_spans_that_sentry_streams(traced: Traced) -> None:
    site = traced.site
    traced.start("sentry, streamed")
    site.occupy()
    result = site.send("hold", 0.0)
    wait_until(lambda: site.waiting() == 1, 20, "it waits")
    site.let_go()
    result.get(timeout=30)

    def runs() -> list[dict[str, Any]]:
        lists = [each["content"]["items"] for each in traced.sent(package="sentry", type="span")]
        return [
            span
            for spans in lists
            for span in spans
            if span["name"] == "hold" and span["is_segment"]
        ]

    wait_until(lambda: len(runs()) == 2, 20, "a span of each")
    attempts = [each["attributes"][acquired.ATTEMPTS]["value"] for each in runs()]
    assert sorted(attempts) == [1, 2]


def test_an_eager_run_waits_inside_its_span(app: Celery) -> None:
    spans = InMemorySpanExporter()
    provider, instrumentor = TracerProvider(), CeleryInstrumentor()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrumentor.instrument(tracer_provider=provider)
    try:
        limited(app).apply(throw=True)
    finally:
        instrumentor.uninstrument()
    (span,) = spans.get_finished_spans()
    assert span.name == "run/limited"
    assert ALL_THREE.isdisjoint(span.attributes or {})


ACQUIRED = Acquired.by(
    Permit("x:1", 1, (Claim("api", "of a tenant", 2), Claim("all", None, 9)), 107.5, 120.0, 1),
    Ticket("x:0", 0, 100_000_000),
    2,
)


def test_a_key_is_on_no_span() -> None:
    """Keys come from arguments, which this library tells nobody."""
    assert ACQUIRED.attributes == {
        acquired.WAIT_SECONDS: 7.5,
        acquired.SEMAPHORE: "api,all",
        acquired.ATTEMPTS: 3,
    }


def test_datadog_has_numbers_as_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its documentation: a tag is a text."""
    put: dict[str, Any] = {}
    span = SimpleNamespace(
        set_tag=lambda name, value: put.update({name: ("tag", value)}),
        set_metric=lambda name, value: put.update({name: ("metric", value)}),
    )
    tracer = SimpleNamespace(current_span=lambda: span)
    monkeypatch.setitem(sys.modules, "ddtrace.trace", SimpleNamespace(tracer=tracer))
    put_on_span(ACQUIRED)
    assert Counter(kind for kind, _ in put.values()) == {"metric": 2, "tag": 1}
    assert put[acquired.SEMAPHORE] == ("tag", "api,all")


@pytest.mark.parametrize("name", tracing.PACKAGES)
def test_a_package_that_fails_fails_no_task(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """One that another thread is importing lacks its functions, too."""
    monkeypatch.setitem(sys.modules, name, SimpleNamespace())
    put_on_span(ACQUIRED)
