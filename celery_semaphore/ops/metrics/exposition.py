"""Print the metrics of one collection, or serve them until the process is told to end."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ...core.key import resource_name
from ...metrics.catalogue import OF_THE_EXPORTER, OF_THE_STORE
from ...metrics.server import (  # names the extra that brings its package
    cause_of,
    serve as listen,
    text_of,
)

from ...metrics.prometheus import StateCollector  # isort: skip # needs that package, too
from ...settings import Settings
from ..directory import declared_by
from .answer import ScaleAnswer
from .exporter import Exporter

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


@contextmanager
def opened(app: Any, **options: Any) -> Iterator[Exporter]:
    """Yield the exporter of an app, and close its store after it."""
    store = Settings.from_app(app).open_store()
    declared = [resource_name(name, None) for name in declared_by(app.tasks.values())]
    try:
        yield Exporter(app, store, declared=declared, **options)
    finally:
        store.close()


def collector_of(exporter: Exporter) -> StateCollector:
    """Return a collector that reads the last collection, and asks no server."""
    return StateCollector(exporter.figures, (*OF_THE_EXPORTER, *OF_THE_STORE))


def print_once(exporter: Exporter) -> bool:
    """Print the metrics of one collection, and return whether the store answered."""
    answered = exporter.collect()
    click.echo(text_of([collector_of(exporter)]), nl=False)
    return answered


def serve(
    exporter: Exporter,
    address: str,
    port: int,
    interval: float,
    pages: Mapping[str, WSGIApplication],
) -> None:
    """Collect and serve until SIGTERM or SIGINT; ``pages`` are shown beside the metrics."""
    logging.basicConfig(format="[%(asctime)s: %(levelname)s] %(message)s")
    routes: dict[str, WSGIApplication] = {"/scale": ScaleAnswer(exporter), **pages}
    try:
        server = listen([collector_of(exporter)], address, port, routes)
    except OSError as error:
        msg = f"cannot listen on --address {address!r} --port {port}: {cause_of(error)}."
        raise click.ClickException(msg) from error
    # As the first process of a container it would not even notice the signal by which the container is ended.
    signal.signal(signal.SIGTERM, lambda *_: exporter.stop())
    click.echo(f"Metrics at http://{address}:{port}/metrics", err=True)
    for path in pages:
        shows = "all that can reach this address see names of keys and ids of tasks"
        click.echo(f"Page at http://{address}:{port}{path}: {shows}", err=True)
    try:
        exporter.run(interval)
    except KeyboardInterrupt:
        click.echo("", err=True)
    finally:
        server.close()
