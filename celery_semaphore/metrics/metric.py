"""Define what a metric is for Prometheus and for OpenTelemetry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFIX = "celery_semaphore_"
DURATION_BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3600.0)


class MetricType(StrEnum):
    """What Prometheus calls the type of a metric."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``name`` is that of Prometheus, without the suffix ``_total`` of a counter."""

    name: str
    type: MetricType
    help: str
    labels: tuple[str, ...] = ()
    otel: str = ""  # the name for OpenTelemetry; empty: it is not exposed there
    unit: str = ""  # for OpenTelemetry
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> str:
        """The name of its samples in Prometheus; for a histogram without the suffixes."""
        return f"{self.name}_total" if self.type is MetricType.COUNTER else self.name


def gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, MetricType.GAUGE, text, labels)


def counter(name: str, text: str, *labels: str, otel: str, unit: str) -> Metric:
    return Metric(PREFIX + name, MetricType.COUNTER, text, labels, f"celery_semaphore.{otel}", unit)


def histogram(
    name: str, text: str, *labels: str, otel: str, buckets: tuple[float, ...] = DURATION_BUCKETS_S
) -> Metric:
    return Metric(
        PREFIX + name,
        MetricType.HISTOGRAM,
        text,
        labels,
        f"celery_semaphore.{otel}",
        "s",
        buckets,
    )
