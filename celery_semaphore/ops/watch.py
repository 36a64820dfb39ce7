"""Watch: print the same again and again, until it is interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import click
from celery.bin.base import CeleryOption

from ..errors import StoreUnavailable

PAUSE_S = 2.0

watch_option = click.option(
    "--watch", cls=CeleryOption, is_flag=True, help="Print it every two seconds, until Ctrl-C."
)


def watching(draw: Callable[[], None]) -> None:
    """Print until the command is interrupted; an outage of the store is printed, too, and then its end."""
    try:
        while True:
            click.clear()  # of a terminal; a pipe gets one print after the other
            try:
                draw()
            except StoreUnavailable as error:
                click.echo(f"Error: {error}", err=True)
            time.sleep(PAUSE_S)
    except KeyboardInterrupt:
        return


def refuse_both(**given: Any) -> None:
    """Raise where two options were given of which only one can be."""
    if all(given.values()):
        raise click.UsageError(f"give --{' or --'.join(given)}, and not both.")
