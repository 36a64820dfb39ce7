"""Provide ``celery -A app semaphore metrics``: the exporter.

Celery loads it with each command: what only the exporter needs is imported when it runs.
"""

from __future__ import annotations

import click
from celery.bin.base import CeleryCommand, CeleryOption

from ..terminal import said_in_one_line

PORT = 9808
INTERVAL_S = 15.0
MAX_KEYS = 50_000


def port_of(value: str | int) -> int:
    """Return the number of a port to listen on, or end the command with an error that says what a port is."""
    try:
        port = int(value)
    except ValueError:
        port = 0
    if not 1 <= port < 1 << 16:
        msg = f"'{value}' is not a port; give a whole number from 1 to 65535."
        raise click.BadParameter(msg)
    return port


@click.command(cls=CeleryCommand)
@click.option(
    "--port",
    cls=CeleryOption,
    type=port_of,
    metavar="PORT",
    default=PORT,
    show_default=True,
    help="Listen on this port.",
)
@click.option(
    "--address",
    cls=CeleryOption,
    default="127.0.0.1",
    show_default=True,
    help="Listen on this address; 0.0.0.0 means all addresses of the host, open to all that can reach it.",
)
@click.option(
    "--once", cls=CeleryOption, is_flag=True, help="Print the metrics of one collection, and exit."
)
@click.option(
    "--interval",
    cls=CeleryOption,
    type=click.FloatRange(0.1, 3600),
    default=INTERVAL_S,
    show_default=True,
    help="Seconds between two collections.",
)
@click.option(
    "--max-keys",
    cls=CeleryOption,
    type=click.IntRange(1),
    default=MAX_KEYS,
    show_default=True,
    help="Read at most this many keys in one collection, and count the others as skipped.",
)
@click.option(
    "-Q",
    "--queue",
    "queues",
    cls=CeleryOption,
    multiple=True,
    help="Export how many tasks of this queue can run, for autoscalers. May be repeated.",
)
@click.option(
    "--page",
    cls=CeleryOption,
    is_flag=True,
    help="Also show the semaphores in a browser, at /page: names of keys and ids of tasks, but nothing to change.",
)
@click.pass_context
def metrics(
    ctx: click.Context,
    *,
    port: int,
    address: str,
    once: bool,
    interval: float,
    max_keys: int,
    queues: tuple[str, ...],
    page: bool,
) -> None:
    """Export the state of all semaphores for Prometheus, at /metrics, and for autoscalers, at /scale?queue=NAME.

    One exporter is enough for a cluster, and several do no harm. Anything that can reach its port can read its figures.
    """
    app = ctx.obj.app
    app.loader.import_default_modules()  # the tasks, which declare limits
    with said_in_one_line(app):
        from .exposition import opened, print_once, serve
        from .page import page_of

        with (
            opened(app, interval=interval, max_keys=max_keys, queues=queues) as exporter,
            page_of(app, wanted=page and not once) as pages,
        ):
            if once:
                ctx.exit(int(not print_once(exporter)))
            serve(exporter, address, port, interval, pages)
