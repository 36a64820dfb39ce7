"""Watch: print the same again and again, until it is interrupted."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from shutil import get_terminal_size
from typing import Any

import click
from celery.bin.base import CeleryOption

from ..errors import StoreUnavailable
from .terminal import say
from .text import width

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
                say(ctx, fitting(text, get_terminal_size()) if sys.stdout.isatty() else text)
            except StoreUnavailable as error:
                click.echo(f"Error: {error}", err=True)
            time.sleep(PAUSE_S)
    except KeyboardInterrupt:
        return


def fitting(text: str, size: os.terminal_size) -> str:
    """Return the beginning of the text, as much as a terminal can show: the first lines of a longer one scroll away."""
    lines, left = text.split("\n"), size.lines - 1  # the cursor is in the last row
    rows = [max(math.ceil(width(click.unstyle(line)) / size.columns), 1) for line in lines]
    if sum(rows) <= left:
        return text
    shown = 1  # and so many more while a row is left to say that there are more
    while sum(rows[: shown + 1]) < left:
        shown += 1
    return "\n".join([*lines[:shown], f"… and {len(lines) - shown} more lines"])


def refuse_both(**given: Any) -> None:
    """Raise where two options were given of which only one can be."""
    if all(given.values()):
        raise click.UsageError(f"give --{' or --'.join(given)}, and not both.")
