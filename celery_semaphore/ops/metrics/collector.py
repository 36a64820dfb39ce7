"""Collector: gives the exporter's samples to prometheus_client, which makes its text of them."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily

from ...metrics.catalogue import Metric
from .exporter import Exporter


class ExporterCollector:
    """A collector of prometheus_client; each scrape reads the last collection, and asks no server."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter

    def collect(self) -> Iterator[GaugeMetricFamily]:
        families: dict[Metric, GaugeMetricFamily] = {}
        for metric, labels, value in self._exporter.samples():
            family = families.get(metric)
            if family is None:
                family = GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                families[metric] = family
            family.add_metric(labels, value)
        yield from families.values()
