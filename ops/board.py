"""The board: one Grafana dashboard, as the JSON that Grafana imports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from celery_semaphore.metrics import catalogue as metrics

from .panels import LISTS, NUMBERS, PANELS, List, Number, Panel

COLUMNS = 24  # of Grafana's grid
WIDTH, HEIGHT = 12, 8  # of a panel
LOW = 4  # the height of a number


def board() -> str:
    """Return the dashboard as JSON."""
    return json.dumps(_dashboard(), indent=2) + "\n"


def _dashboard() -> dict[str, Any]:
    return {
        "uid": "celery-semaphore",
        "title": "celery_semaphore",
        "tags": ["celery"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [_datasource(), _semaphores()]},
        "panels": [{"id": n, **each} for n, each in enumerate(_panels(), 1)],
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus"}


def _semaphores() -> dict[str, Any]:
    return {
        "name": "semaphore",
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "query": f"label_values({metrics.CAPACITY.exposed}, semaphore)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


def _panels() -> Iterator[dict[str, Any]]:
    """Yield a row of numbers, a row of lists, and the panels, two in a row."""
    width = COLUMNS // len(NUMBERS)
    for n, number in enumerate(NUMBERS):
        yield _number(number, _at(n * width, 0, width, LOW))
    for n, shown in enumerate(LISTS):
        yield _list(shown, _below(n))
    for n, panel in enumerate(PANELS, len(LISTS)):
        yield _panel(panel, _below(n))


def _below(n: int) -> dict[str, int]:
    """Return the place of the n-th panel below the numbers."""
    return _at(n % 2 * WIDTH, LOW + n // 2 * HEIGHT, WIDTH, HEIGHT)


def _at(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def _common(shown: Number | List | Panel, kind: str, place: dict[str, int]) -> dict[str, Any]:
    return {
        "type": kind,
        "title": shown.title,
        "description": shown.about,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "gridPos": place,
    }


def _number(number: Number, place: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if number.red_above is not None:
        steps.append({"color": "red", "value": number.red_above + 1e-9})  # from here on, in Grafana
    return _common(number, "stat", place) | {
        "fieldConfig": {
            "defaults": {
                "unit": number.unit,
                "noValue": "0" if number.is_counted else "no data",
                "thresholds": {"mode": "absolute", "steps": steps},
            },
            "overrides": [],
        },
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "none"},
        "targets": [{"refId": "A", "expr": number.query, "instant": True}],
    }


def _list(shown: List, place: dict[str, int]) -> dict[str, Any]:
    return _common(shown, "table", place) | {
        "fieldConfig": {"defaults": {"unit": shown.unit}, "overrides": []},
        "options": {"sortBy": [{"displayName": "Value", "desc": True}]},
        "transformations": [
            {"id": "organize", "options": {"excludeByName": {"Time": True, "state": True}}}
        ],
        "targets": [{"refId": "A", "expr": shown.query, "instant": True, "format": "table"}],
    }


def _panel(panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    mode = "normal" if panel.stacked else "none"
    return _common(panel, "timeseries", place) | {
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"stacking": {"mode": mode}}},
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }
