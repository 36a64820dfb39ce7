"""Write PromQL with the names of the catalogue, so that no query can name a metric that does not exist."""

from __future__ import annotations

from celery_semaphore.metrics.metric import Metric, MetricType

WINDOW = "$__rate_interval"  # Grafana's: four scrapes at least


def select(metric: Metric, **labels: str) -> str:
    """Select the samples of a metric by exact labels; a value that begins with ``~`` is a pattern."""
    return _selected(metric.exposed, metric, labels)


def seen(metric: Metric, **labels: str) -> str:
    """Select a gauge of the exporter, once if several exporters show it."""
    _must_be(metric, MetricType.GAUGE)
    by = f" by ({', '.join(metric.labels)})" if metric.labels else ""
    return f"max{by} ({select(metric, **labels)})"


def rate(metric: Metric, window: str = WINDOW, **labels: str) -> str:
    """Return the increase of a counter in a second."""
    _must_be(metric, MetricType.COUNTER)
    return f"rate({select(metric, **labels)}[{window}])"


def increase(metric: Metric, window: str, **labels: str) -> str:
    """Return the increase of a counter in the window."""
    _must_be(metric, MetricType.COUNTER)
    return f"increase({select(metric, **labels)}[{window}])"


def total(query: str, *by: str) -> str:
    """Sum a query over all workers, by these labels."""
    return f"sum by ({', '.join(by)}) ({query})" if by else f"sum({query})"


def quantile(part: float, metric: Metric, *by: str, **labels: str) -> str:
    """Return a quantile of a histogram over all workers, by these labels."""
    _must_be(metric, MetricType.HISTOGRAM)
    for label in by:
        _must_have(metric, label)
    buckets = f"rate({_selected(f'{metric.name}_bucket', metric, labels)}[{WINDOW}])"
    return f"histogram_quantile({part}, {total(buckets, 'le', *by)})"


def _selected(name: str, metric: Metric, labels: dict[str, str]) -> str:
    for label in labels:
        _must_have(metric, label)
    if not labels:
        return name
    chosen = (
        f'{label}=~"{value[1:]}"' if value.startswith("~") else f'{label}="{value}"'
        for label, value in labels.items()
    )
    return f"{name}{{{','.join(chosen)}}}"


def _must_be(metric: Metric, wanted: MetricType) -> None:
    if metric.type is not wanted:
        msg = f"{metric.name} is a {metric.type}, not a {wanted}"
        raise ValueError(msg)


def _must_have(metric: Metric, label: str) -> None:
    if label not in metric.labels:
        msg = f"{metric.name} has no label {label!r}; it has {metric.labels}"
        raise ValueError(msg)
