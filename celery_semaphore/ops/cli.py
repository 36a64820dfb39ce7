"""Provide ``celery -A app semaphore …``: the inspector on the command line.

Celery loads it with each command, before the project's modules: it must be cheap, and not import LimitedTask.
"""

from __future__ import annotations

from typing import Any

import click
from celery.bin.base import handle_preload_options

from ..task.hidden_url import hide_url
from ..task.steps import watch_starts
from ..worker.main_process.inspection import add_inspect_command
from .check import check
from .install import install, upgrade
from .lease import lease
from .limits import limit, pause, resume
from .metrics.command import metrics
from .purged_broker import say_what_a_purge_leaves
from .show import list_, show
from .waits import drop, promote, purge, take_away
from .why import why

hide_url()  # `celery report` would show the store's password, even in a project that imports no other module of ours
add_inspect_command()
watch_starts()
say_what_a_purge_leaves()


@click.group(name="semaphore")
@click.pass_context
@handle_preload_options  # type: ignore[untyped-decorator]
def semaphore(ctx: click.Context, **_: Any) -> None:
    """Show held permits and waiting tasks, and set limits."""


for _command in (list_, show, why, limit, pause, resume, take_away, promote, drop, purge):
    semaphore.add_command(_command)
for _command in (check, lease, install, upgrade, metrics):
    semaphore.add_command(_command)
