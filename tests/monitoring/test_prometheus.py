"""A real Prometheus scrapes the exporter and workers, and answers each query of the board and of the alarms."""

from __future__ import annotations

import pytest

from ops.alarms import ALARMS
from ops.panels import LISTS, NUMBERS, PANELS
from tests.conftest import need
from tests.metrics.scraped import text_from
from tests.support.process import free_port, wait_until
from tests.support.prometheus import PrometheusServer, promtool
from tests.worker.conftest import Site

from ..ops.metrics.conftest import Exporting

# Grafana replaces these before it asks.
ASKED = (("$__rate_interval", "30s"), ("$semaphore", ".*"))
# What did not happen to these tasks has no samples.
UNSEEN = ("restored", "put_back", "copies")


def workers_on(site: Site) -> list[int]:
    """Start a worker that parks, and one with tasks that are dropped; return the ports of their metrics."""
    ports = {"celery": free_port(), "second": free_port()}
    for queue, port in ports.items():
        conf = {"semaphore_metrics_port": port, "semaphore_on_saturated": "park"}
        site.start(concurrency=2, queues=[queue], conf=conf, name=queue)
    return list(ports.values())


@pytest.mark.slow
def test_each_query_of_board_and_alarms_is_answered(site: Site) -> None:
    need(PrometheusServer)
    workers = workers_on(site)
    with Exporting("--interval", "0.5", "--queue", "celery", env=site.env()) as exporter:
        exporter.wait_up()
        ports = [exporter.port, *workers]
        with PrometheusServer([f"127.0.0.1:{port}" for port in ports], "500ms") as prometheus:
            wait_until(lambda: prometheus.value('sum(up{job="celery"})') == 3, 30, "three scrapes")
            for _ in range(4):
                site.send("hold", 2.0)
            parked = 'celery_semaphore_waiting{semaphore="one",state="parked"}'
            wait_until(lambda: prometheus.value(parked) == 3, 30, "three are parked")
            site.send("dropped", "one", queue="second")
            for port in ports:
                promtool("check", "metrics", stdin=text_from(port))
            wait_until(lambda: not unanswered(prometheus), 60, "each query is answered")
            for shown in (*ALARMS, *NUMBERS, *LISTS):
                prometheus.query(asked(shown.query))  # raises for a wrong one
            assert all(prometheus.query(asked(each.query)) for each in NUMBERS[:4])


def queries() -> list[str]:
    return [asked(query) for panel in PANELS for query, _ in panel.queries]


def asked(query: str) -> str:
    """Return a query of the board as Grafana sends it."""
    for written, meant in ASKED:
        query = query.replace(written, meant)
    return query


def unanswered(prometheus: PrometheusServer) -> list[str]:
    """Return the queries without a sample, but for those of what did not happen here."""
    return [
        query
        for query in queries()
        if not prometheus.query(query) and not any(part in query for part in UNSEEN)
    ]
