"""Put what a task waited on the span of its run, for whichever tracing package the process has loaded."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from typing import Any

from .acquired import Acquired, Attributes

logger = logging.getLogger(__name__)


def put_on_span(acquired: Acquired) -> None:
    """Set the attributes of the current span of each tracing package that is loaded."""
    for name, put in PACKAGES.items():
        module = sys.modules.get(name)  # never imported here: a process that traces has done it
        if module is None:
            continue
        try:
            put(module, acquired.attributes)
        except Exception:  # a package that traces must not fail what it traces
            logger.debug("the wait is not on the span of %s", name, exc_info=True)


def _put_opentelemetry(trace: Any, attributes: Attributes) -> None:
    trace.get_current_span().set_attributes(attributes)


def _put_sentry(sentry_sdk: Any, attributes: Attributes) -> None:
    span = sentry_sdk.get_current_span()
    for name, value in attributes.items() if span is not None else ():
        span.set_data(name, value)


def _put_sentry_stream(traces: Any, attributes: Attributes) -> None:
    if (span := traces.get_current_span()) is not None:
        span.set_attributes(attributes)


def _put_datadog(trace: Any, attributes: Attributes) -> None:
    span = trace.tracer.current_span()
    for name, value in attributes.items() if span is not None else ():
        put = span.set_tag if isinstance(value, str) else span.set_metric
        put(name, value)


PACKAGES: Mapping[str, Callable[[Any, Attributes], None]] = {
    "opentelemetry.trace": _put_opentelemetry,
    "sentry_sdk": _put_sentry,
    "sentry_sdk.traces": _put_sentry_stream,  # with trace_lifecycle="stream"
    "ddtrace.trace": _put_datadog,
}
