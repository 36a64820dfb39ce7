"""The catalogue, and the page that shows it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from celery_semaphore.core.events import Loss, WaitEnd
from celery_semaphore.core.refusal import Reason
from celery_semaphore.metrics.catalogue import (
    ALL,
    OF_A_WORKER,
    OF_EVENTS,
    OF_THE_EXPORTER,
    OF_THE_STORE,
)
from celery_semaphore.metrics.metric import PREFIX, Metric
from celery_semaphore.worker.pool_process.destination import Unasked

PAGE = Path(__file__).parents[2] / "docs/howto/metrics.md"
HEAD = "| Prometheus | type | labels | meaning | OpenTelemetry |\n|---|---|---|---|---|\n"


def table(metrics: Iterable[Metric]) -> str:
    """The rows of the page."""
    rows = [
        f"| `{m.exposed}` | {m.type} | {', '.join(m.labels) or '-'} | {m.help} | {f'`{m.otel}`' if m.otel else '-'} |"
        for m in metrics
    ]
    return HEAD + "\n".join(rows) + "\n"


def test_the_page_shows_what_a_worker_counts() -> None:
    assert table((*OF_EVENTS, *OF_A_WORKER)) in PAGE.read_text("utf-8")


def test_the_page_shows_what_the_exporter_has() -> None:
    page = PAGE.read_text("utf-8")
    for m in (*OF_THE_STORE, *OF_THE_EXPORTER):
        assert f"| `{m.exposed}` | {m.type} | {', '.join(m.labels) or '-'} | {m.help} |\n" in page


def test_the_page_explains_each_value_of_a_label() -> None:
    page = PAGE.read_text("utf-8")
    for value in (
        *Reason,
        *Unasked,
        *WaitEnd,
        *Loss,
        "busy",
        "idle",
        "declared",
        "operator",
        "granted",
        "paused",
        "in_transit",
    ):
        assert f"`{value}`" in page


def test_names_are_unique() -> None:
    assert len({metric.name for metric in ALL}) == len(ALL)
    named = [metric.otel for metric in ALL if metric.otel]
    assert len(set(named)) == len(named)


def test_each_name_has_the_prefix_and_no_label_is_a_key() -> None:
    assert all(metric.name.startswith(PREFIX) for metric in ALL)
    assert "key" not in {label for metric in ALL for label in metric.labels}
