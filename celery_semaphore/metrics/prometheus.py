"""Collectors for Prometheus: what one worker has counted, and its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric as Family,
)
from prometheus_client.registry import Collector

from .catalogue import OF_A_WORKER, OF_EVENTS
from .figures import Figure
from .metric import Metric, MetricType
from .recorder import Recorder
from .tally import Distribution, Tally


class CountsCollector(Collector):
    """Yields what a recorder has counted."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def collect(self) -> Iterator[Family]:
        """Yield each metric; Prometheus's registry calls this for each request."""
        with self._recorder.counted() as tally:
            families = [_family(metric, tally) for metric in OF_EVENTS]
        yield from families


class StateCollector(Collector):
    """Yields the state of a worker, or what other figures ``read`` returns ``of`` these metrics."""

    def __init__(
        self, read: Callable[[], Iterable[Figure]], of: Iterable[Metric] = OF_A_WORKER
    ) -> None:
        self._read = read
        self._of = tuple(of)

    def collect(self) -> Iterator[Family]:
        """Yield each metric."""
        families = {m.name: GaugeMetricFamily(m.name, m.help, labels=m.labels) for m in self._of}
        for metric, labels, value in self._read():
            families[metric.name].add_metric(labels, value)
        yield from families.values()


def _family(metric: Metric, tally: Tally) -> Family:
    if metric.type is MetricType.COUNTER:
        counter = CounterMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, count in tally.counts(metric).items():
            counter.add_metric(labels, count)
        return counter
    histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
    for labels, distribution in tally.distributions(metric).items():
        histogram.add_metric(labels, _cumulative(distribution), distribution.sum)
    return histogram


def _cumulative(distribution: Distribution) -> list[tuple[str, float]]:
    bounds = [*map(str, distribution.bounds), "+Inf"]
    return [
        (bound, float(count))
        for bound, count in zip(bounds, accumulate(distribution.buckets), strict=True)
    ]
