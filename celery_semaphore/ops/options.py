"""Options that several commands have."""

from __future__ import annotations

import click
from celery.bin.base import CeleryOption

from .inspector import ASK

name_argument = click.argument("name")
key_option = click.option("-k", "--key", cls=CeleryOption, help="One key of the semaphore.")
json_option = click.option(
    "-j", "--json", "as_json", cls=CeleryOption, is_flag=True, help="As JSON."
)
force_option = click.option(
    "-f", "--force", cls=CeleryOption, is_flag=True, help="Don't prompt for verification."
)
timeout_option = click.option(
    "-t",
    "--timeout",
    cls=CeleryOption,
    type=click.FloatRange(0),
    default=ASK,
    show_default=True,
    help="Seconds to wait for the workers, which know the tasks' names; 0 does not ask them.",
)
