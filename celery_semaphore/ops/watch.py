"""Watch: print the same again and again, until it is interrupted."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from shutil import get_terminal_size
from typing import Any

import click
from celery.bin.base import CeleryOption

from ..errors import StoreUnavailable
from .terminal import say

PAUSE_S = 2.0

watch_option = click.option(
    "--watch", cls=CeleryOption, is_flag=True, help="Print it every two seconds, until Ctrl-C."
)


def watching(ctx: click.Context, drawn: Callable[[], str]) -> None:
    """Print until the command is interrupted; an outage of the store is printed, too, and then its end."""
    try:
        while True:
            click.clear()  # of a terminal; a pipe gets one print after the other
            try:
                text = drawn()
                say(ctx, fitting(text, get_terminal_size().lines) if sys.stdout.isatty() else text)
            except StoreUnavailable as error:
                click.echo(f"Error: {error}", err=True)
            time.sleep(PAUSE_S)
    except KeyboardInterrupt:
        return


def fitting(text: str, rows: int) -> str:
    """Return as much of the text as a terminal of so many rows can show, for its first lines would scroll away."""
    lines = text.split("\n")
    most = max(rows - 2, 1)  # one row says that there is more, and the cursor is in the last one
    if len(lines) <= most + 1:
        return text
    return "\n".join([*lines[:most], f"… and {len(lines) - most} more lines"])


def refuse_both(**given: Any) -> None:
    """Raise where two options were given of which only one can be."""
    if all(given.values()):
        raise click.UsageError(f"give --{' or --'.join(given)}, and not both.")
