"""The same figures by OpenTelemetry."""

from __future__ import annotations

from typing import Any

import pytest

from celery_semaphore.metrics.catalogue import OF_EVENTS, WAIT_SECONDS
from celery_semaphore.metrics.metric import PREFIX, Metric, MetricType
from tests.metrics.scraped import Scraped
from tests.support.process import wait_until

from ..conftest import Site
from .conftest import StartWatched
from .test_counts import done

pytest.importorskip("opentelemetry.sdk")

Point = tuple[frozenset[tuple[str, str]], float, float]
APP = "tests.worker.metrics.telemetry_app"
# The store is called now and then while the two are read.
COMPARED = [metric for metric in OF_EVENTS if "store" not in metric.name]


def by_prometheus(seen: Scraped, metric: Metric) -> set[Point]:
    name = metric.name.removeprefix(PREFIX)
    if metric.type is MetricType.COUNTER:
        return {(has, v, 0.0) for (n, has), v in seen.samples.items() if n == f"{name}_total"}
    counts = {has: v for (n, has), v in seen.samples.items() if n == f"{name}_count"}
    return {(has, v, round(seen.samples[f"{name}_sum", has], 6)) for has, v in counts.items()}


def by_opentelemetry(points: list[Any], metric: Metric) -> set[Point]:
    return {
        (frozenset(attributes.items()), values[0], round(values[1], 6) if values[1:] else 0.0)
        for name, unit, attributes, values in points
        if (name, unit) == (metric.otel, metric.unit)
    }


def test_the_same_figures(site: Site, watched: StartWatched) -> None:
    here = watched(app=APP, pool="threads", concurrency=3)
    (held,) = site.occupy()
    tasks = [site.send("dropped", "d"), site.send("failing", "f"), site.send("look")]
    here.wait(1, "worker_kept_messages")
    site.let_go()
    done(held, *tasks, *(site.send("call", 0.01) for _ in range(20)))
    here.wait(22, "held_seconds_count")

    def agree() -> bool:
        points = site.send("telemetry").get(timeout=20)
        seen = here.scraped()
        return all(by_prometheus(seen, m) == by_opentelemetry(points, m) for m in COMPARED)

    wait_until(agree, 20, "both have the same figures")
    points = site.send("telemetry").get(timeout=20)
    (waits,) = [
        values
        for name, _, has, values in points
        if name.endswith("wait.duration") and has["semaphore"] == "one"
    ]
    assert len(waits) == 2 + len(WAIT_SECONDS.buckets) + 1, "its buckets are those of the catalogue"
    (acquired,) = [
        v
        for n, _, has, v in points
        if n == "celery_semaphore.permit.acquired" and has["task"] == "call"
    ]
    assert acquired == [20]
    assert any(n == "celery_semaphore.store.duration" for n, _, _, _ in points)


def test_without_a_port(site: Site) -> None:
    """OpenTelemetry alone is enough, and neither needs the other."""
    worker = site.start(app=APP, pool="solo", concurrency=1)
    done(site.send("call", 0.01))

    def acquired() -> list[Any]:
        points = site.send("telemetry").get(timeout=20)
        return [
            v for n, _, has, v in points if n.endswith("permit.acquired") and has["task"] == "call"
        ]

    wait_until(lambda: acquired() == [[1]], 20, "it is counted")
    assert "metrics on" not in worker.log()
