"""The app under test, with an SDK of OpenTelemetry whose figures a task returns."""

from __future__ import annotations

from typing import Any

from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from tests.worker.app import app

__all__ = ["app"]

reader = InMemoryMetricReader()
set_meter_provider(MeterProvider([reader]))


@app.task(name="telemetry")
def telemetry() -> list[Any]:
    """Each data point: name, unit, attributes, and its value, or count, sum and buckets."""
    data = reader.get_metrics_data()
    found: list[Any] = []
    for metric in data.resource_metrics[0].scope_metrics[0].metrics if data else []:
        for point in metric.data.data_points:
            seen: Any = point
            if hasattr(seen, "value"):
                values = [seen.value]
            else:
                values = [seen.count, seen.sum, *seen.bucket_counts]
            found.append([metric.name, metric.unit, dict(seen.attributes), values])
    return found
