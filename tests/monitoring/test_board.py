"""The board and the alarms name what exists, and the files are those that the catalogue makes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from celery_semaphore.metrics import catalogue
from celery_semaphore.metrics.metric import Metric, MetricType
from ops.__main__ import FILES
from ops.alarms import ALARMS, alarms
from ops.panels import PANELS
from ops.queries import increase, quantile, seen, select
from tests.conftest import need
from tests.support.process import ROOT
from tests.support.prometheus import PrometheusServer, promtool

TESTS = sorted((next(iter(FILES)).parents[1] / "prometheus").glob("*_test.yml"))
QUERIES = [query for panel in PANELS for query, _ in panel.queries] + [a.query for a in ALARMS]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_files_are_up_to_date(path: Path) -> None:
    assert path.read_text("utf-8") == FILES[path](), "run `python -m ops`, and commit the files"


@pytest.mark.parametrize("metric", catalogue.ALL, ids=lambda metric: metric.name)
def test_the_board_shows_each_metric(metric: Metric) -> None:
    end = "_bucket" if metric.type is MetricType.HISTOGRAM else ""
    assert any(metric.exposed + end in query for query in QUERIES)


def test_the_catalogue_has_each_metric_once() -> None:
    names = [metric.name for metric in catalogue.ALL]
    assert len(set(names)) == len(names)
    assert {m for m in vars(catalogue).values() if isinstance(m, Metric)} == set(catalogue.ALL)


def test_no_metric_has_a_label_for_keys() -> None:
    assert not [metric.name for metric in catalogue.ALL if "key" in metric.labels]


def test_a_query_cannot_name_a_label_that_does_not_exist() -> None:
    for ask in (
        lambda: select(catalogue.UP, semaphore="api"),
        lambda: seen(catalogue.ACQUIRED),
        lambda: increase(catalogue.UP, "5m"),
        lambda: quantile(0.5, catalogue.WAIT_SECONDS, "task"),
        lambda: quantile(0.5, catalogue.ACQUIRED),
    ):
        with pytest.raises(ValueError, match=r"has no label|, not a"):
            ask()


def test_the_alarms_fire_for_their_causes() -> None:
    need(PrometheusServer)
    assert "rules found" in promtool("check", "rules", "alerts.yml")
    said = promtool("test", "rules", *(path.name for path in TESTS))
    assert said.count("SUCCESS") == len(TESTS) == 2


def test_each_alarm_leads_to_what_to_do() -> None:
    page = (ROOT / "docs" / "operate" / "alarms.md").read_text("utf-8")
    assert re.findall("^### (Semaphore.*)$", page, re.MULTILINE) == [each.name for each in ALARMS]
    for alarm in ALARMS:
        assert f'alarms.md#{alarm.name.lower()}"' in alarms()


def test_each_alarm_is_tested() -> None:
    tests = "".join(path.read_text("utf-8") for path in TESTS)
    assert [alarm.name for alarm in ALARMS if f"alertname: {alarm.name}\n" not in tests] == []
