"""The board: one Grafana dashboard, as the JSON that Grafana imports."""

from __future__ import annotations

import json
from typing import Any

from celery_semaphore.metrics import catalogue as metrics

from .panels import PANELS, Panel

WIDTH, HEIGHT = 12, 8  # of a panel, in Grafana's grid of 24 columns


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
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
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


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    mode = "normal" if panel.stacked else "none"
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "gridPos": {
            "x": number % 2 * WIDTH,
            "y": number // 2 * HEIGHT,
            "w": WIDTH,
            "h": HEIGHT,
        },
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": {"stacking": {"mode": mode}}},
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + at), "expr": query, "legendFormat": legend}
            for at, (query, legend) in enumerate(panel.queries)
        ],
    }
