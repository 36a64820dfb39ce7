"""Put what a task waited on the span of its run, for whichever tracing package the process has loaded."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from ...core.permit import Permit
from ...core.ticket import Ticket

# The attributes of a span.
WAIT_SECONDS = "celery_semaphore.wait_seconds"
SEMAPHORE = "celery_semaphore.semaphore"
ATTEMPTS = "celery_semaphore.attempts"

Attributes = Mapping[str, float | str]

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Acquired:
    """A permit, and the wait for it."""

    permit: Permit
    waited: float  # seconds since the first refusal, by the store's clock
    attempts: int  # with the one that acquired

    @classmethod
    def by(cls, permit: Permit, ticket: Ticket | None, refusals: int) -> Self:
        """Return the permit with its wait; a task without a ticket was never refused by a store that it reached."""
        return cls(permit, seconds_waited(permit, ticket), refusals + 1)

    @property
    def attributes(self) -> Attributes:
        """The attributes of the run's span; a key is not among them, as keys come from arguments."""
        semaphores = dict.fromkeys(claim.semaphore for claim in self.permit.claims)
        return {
            WAIT_SECONDS: self.waited,
            SEMAPHORE: ",".join(semaphores),
            ATTEMPTS: self.attempts,
        }


def seconds_waited(permit: Permit, ticket: Ticket | None) -> float:
    """Return the time from the first refusal to the permit; the store's clock may have stepped back between them."""
    return 0.0 if ticket is None else max(permit.acquired_at - ticket.since, 0.0)


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
