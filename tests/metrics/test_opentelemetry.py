"""The instruments of OpenTelemetry, in this process."""

from __future__ import annotations

import os
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.metrics import CallbackOptions, Meter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from celery_semaphore.metrics import opentelemetry
from celery_semaphore.metrics.catalogue import ACQUIRED, WAIT_SECONDS
from celery_semaphore.metrics.opentelemetry import Instruments, has_provider
from celery_semaphore.metrics.tally import Tally

LABELS = ("one", "t")


def instruments(reader: InMemoryMetricReader | None = None) -> Instruments:
    return Instruments(MeterProvider([reader] if reader else []).get_meter("here"))


def tally(count: float) -> Tally:
    made = Tally()
    made.add(ACQUIRED, LABELS, count)
    return made


def observed(made: Instruments) -> list[Any]:
    return [each.value for each in made._observer(ACQUIRED)(CallbackOptions())]


def test_workers_one_after_the_other_add_up() -> None:
    """A counter must not go back when the second worker of a process begins."""
    made = instruments()
    made.observe(tally(2))
    made.observe(tally(3))
    assert observed(made) == [5]


def test_a_forked_process_does_not_repeat_the_counters() -> None:
    made = instruments()
    made.observe(tally(2))
    assert observed(made) == [2]
    child = os.fork()
    if not child:
        os._exit(len(observed(made)))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_an_api_without_advice_on_buckets_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Meter.create_histogram

    class Old(NoOpMeterProvider):
        def get_meter(self, *args: Any, **kwargs: Any) -> Any:
            meter = super().get_meter(*args, **kwargs)

            def create(name: str, unit: str = "", description: str = "") -> Any:
                return before(meter, name, unit, description)

            meter.create_histogram = create  # type: ignore[assignment,method-assign]
            return meter

    Instruments(Old().get_meter("old"))


def test_values_of_histograms_are_recorded() -> None:
    reader = InMemoryMetricReader()
    made = instruments(reader)
    made.record((WAIT_SECONDS, ("one",), 2.0))
    made.record((ACQUIRED, LABELS, 1.0))
    data = reader.get_metrics_data()
    assert data is not None
    (metric,) = data.resource_metrics[0].scope_metrics[0].metrics
    assert metric.name == WAIT_SECONDS.otel


@pytest.mark.parametrize(
    ("provider", "wanted"), [(NoOpMeterProvider(), False), (MeterProvider(), True)]
)
def test_the_providers_of_the_api_want_nothing(
    provider: object, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opentelemetry, "get_meter_provider", lambda: provider)
    assert has_provider() == wanted
