"""Instruments of OpenTelemetry, by its API alone: without an SDK they do nothing.

Counters are observed: OpenTelemetry asks for them when it collects, so a task costs nothing here. Its histograms cannot
be observed, so each value is recorded, in the recorder's thread.

An SDK that collects in forked processes, as its periodic reader does, has a copy of these instruments in each process
of the pool. The counters yield nothing there.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache

from opentelemetry.metrics import (
    CallbackOptions,
    Histogram,
    Meter,
    Observation,
    get_meter,
    get_meter_provider,
)

from .catalogue import OF_EVENTS
from .figures import Figure
from .metric import Metric, MetricType
from .tally import Labels, Tally

METER = "celery_semaphore"


def has_provider() -> bool:
    """Return whether the app has set a provider of meters: the API's own ones only stand in for it."""
    return not type(get_meter_provider()).__module__.startswith("opentelemetry.metrics")


class Instruments:
    """The instruments of one process, for all its workers: OpenTelemetry wants each name once."""

    def __init__(self, meter: Meter) -> None:
        self._pid = os.getpid()
        self._tallies: list[Tally] = []  # of ended workers, too: a counter must not go back
        self._histograms: dict[str, Histogram] = {}
        for metric in OF_EVENTS:
            if metric.type is MetricType.COUNTER:
                meter.create_observable_counter(
                    metric.otel, [self._observer(metric)], metric.unit, metric.help
                )
            else:
                self._histograms[metric.name] = _histogram(meter, metric)

    def observe(self, tally: Tally) -> None:
        """Report the counts of this tally, too."""
        self._tallies.append(tally)

    def record(self, figure: Figure) -> None:
        """Record a value of a histogram; leave the counters to be observed."""
        metric, labels, value = figure
        if (histogram := self._histograms.get(metric.name)) is not None:
            histogram.record(value, _attributes(metric, labels))

    def _observer(self, metric: Metric) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterator[Observation]:
            if os.getpid() != self._pid:
                return
            counts = Counter[Labels]()
            for tally in self._tallies:
                counts.update(tally.counts(metric))
            for labels, count in counts.items():
                yield Observation(int(count), _attributes(metric, labels))

        return observe


def _histogram(meter: Meter, metric: Metric) -> Histogram:
    try:
        return meter.create_histogram(
            metric.otel,
            metric.unit,
            metric.help,
            explicit_bucket_boundaries_advisory=metric.buckets,
        )
    except TypeError:  # the API before 1.30
        return meter.create_histogram(metric.otel, metric.unit, metric.help)


def _attributes(metric: Metric, labels: Labels) -> dict[str, str]:
    return dict(zip(metric.labels, labels, strict=True))


@cache
def instruments() -> Instruments:
    """Return the instruments of this process."""
    return Instruments(get_meter(METER))
