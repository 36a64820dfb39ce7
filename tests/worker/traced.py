"""The app under test in a worker that is traced; what each package would send goes to a file, a line each."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import sentry_sdk
from celery.signals import task_postrun, task_prerun, worker_process_init
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport

from .app import app

__all__ = ["app"]
SENT = os.environ["TRACED_FILE"]


def write(**what: Any) -> None:
    with open(SENT, "a", encoding="utf-8") as file:  # noqa: PTH123 - one write of one line, by many processes
        file.write(json.dumps(what, default=str) + "\n")


class SpanFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        for span in spans:
            context, parent = span.get_span_context(), span.parent
            assert context is not None
            write(
                package="opentelemetry",
                name=span.name,
                trace=context.trace_id,
                parent=None if parent is None else parent.span_id,
                status=span.status.status_code.name,
                attributes=dict(span.attributes or {}),
            )
        return SpanExportResult.SUCCESS


def trace_by_opentelemetry(**_: object) -> None:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(SpanFile()))
    CeleryInstrumentor().instrument(tracer_provider=provider)


class EnvelopeFile(Transport):
    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            write(package="sentry", type=item.type, content=item.payload.json)


def trace_by_sentry(lifecycle: str) -> None:
    options: dict[str, Any] = {"trace_lifecycle": lifecycle} if lifecycle else {}
    sentry_sdk.init(
        dsn="http://public@localhost/1",
        transport=EnvelopeFile,
        traces_sample_rate=1.0,
        enable_logs=False,
        **options,
    )


@task_prerun.connect
def began(task_id: str, **_: Any) -> None:
    write(package="celery", signal="prerun", id=task_id)


@task_postrun.connect
def ended(task_id: str, **_: Any) -> None:
    write(package="celery", signal="postrun", id=task_id)


match os.environ["TRACED_BY"]:
    case "opentelemetry":  # as its documentation says: in each process of the pool
        worker_process_init.connect(trace_by_opentelemetry, weak=False)
    case "opentelemetry at once":  # a pool of threads sends no worker_process_init
        trace_by_opentelemetry()
    case "sentry":
        trace_by_sentry("")
    case "sentry, streamed":
        trace_by_sentry("stream")
