"""Measure what metrics cost a task that never has to wait."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from urllib.request import urlopen

from tests.support.process import free_port

from .figure import Figure, interleaved, ratio
from .site import WITHOUT, Site, site
from .throughput import Spent, compared_cpu, rate

ROUNDS = 9
PROCESSES = 2
SCRAPE_S = 1.0  # between two requests; Prometheus asks four to sixty times as seldom


def measure() -> list[Figure]:
    with ExitStack() as stack:
        port = free_port()
        made = {
            "off": stack.enter_context(_site(without="opentelemetry")),
            "api": stack.enter_context(_site()),
            "on": stack.enter_context(_site(without="opentelemetry", port=port)),
        }
        stack.enter_context(_scraped(port))
        spent: Spent = {}
        found = interleaved(
            ROUNDS, {kind: partial(rate, on, "limited", spent, kind) for kind, on in made.items()}
        )
    figures = []
    for kind, label in (("on", "Prometheus"), ("api", "the API of OpenTelemetry without an SDK")):
        detail: dict[str, object] = {
            "best tasks/s": f"{max(found[kind]):.0f} with and {max(found['off']):.0f} without"
        }
        name = f"throughput with {label} to without metrics"
        figures.append(
            ratio(name, found[kind], found["off"], bound=0.98, at_least=True, detail=detail)
        )
        figures.append(compared_cpu(found, kind, "off", spent))
    return figures


@contextmanager
def _site(*, without: str = "", port: int = 0) -> Iterator[Site]:
    os.environ[WITHOUT] = without
    try:
        with site() as made:
            made.start(PROCESSES, semaphore_metrics_port=port)
            yield made
    finally:
        os.environ.pop(WITHOUT, None)


@contextmanager
def _scraped(port: int) -> Iterator[None]:
    """Ask for the metrics all the time."""
    ended = threading.Event()

    def scrape() -> None:
        while not ended.wait(SCRAPE_S):
            with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                answer.read()

    thread = threading.Thread(target=scrape, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
