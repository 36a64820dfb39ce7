"""Tally: the counts and distributions of one process, in memory."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field

from .metric import Metric, MetricType

Labels = tuple[str, ...]


@dataclass(slots=True)
class Distribution:
    """How often a value fell into each bucket; the last bucket has no upper bound."""

    bounds: tuple[float, ...]
    sum: float = 0.0
    buckets: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.buckets = self.buckets or [0] * (len(self.bounds) + 1)

    def record(self, value: float) -> None:
        """Count a value; a bucket includes its upper bound, as in Prometheus."""
        self.buckets[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def copy(self) -> Distribution:
        """Return a copy that does not change."""
        return Distribution(self.bounds, self.sum, list(self.buckets))


class Tally:
    """Adds figures up; one thread at a time writes, and any thread may read the counts."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[Labels, float]] = {}
        self._distributions: dict[str, dict[Labels, Distribution]] = {}

    def add(self, metric: Metric, labels: Labels, value: float) -> None:
        """Add to a counter, or record in a histogram."""
        if metric.type is MetricType.COUNTER:
            counts = self._counts.setdefault(metric.name, {})
            counts[labels] = counts.get(labels, 0.0) + value
            return
        distributions = self._distributions.setdefault(metric.name, {})
        if (known := distributions.get(labels)) is None:
            known = distributions[labels] = Distribution(metric.buckets)
        known.record(value)

    def counts(self, metric: Metric) -> Mapping[Labels, float]:
        """Return the counts of a counter."""
        return self._counts.get(metric.name, {}).copy()

    def distributions(self, metric: Metric) -> Mapping[Labels, Distribution]:
        """Return the distributions of a histogram; not while another thread writes."""
        found = self._distributions.get(metric.name, {})
        return {labels: each.copy() for labels, each in found.items()}
