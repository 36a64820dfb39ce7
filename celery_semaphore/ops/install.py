"""Provide ``celery -A app semaphore install`` and ``upgrade``."""

from __future__ import annotations

from contextlib import closing

import click
from celery.bin.base import CeleryCommand, CeleryOption

from ..core.store import Store
from ..settings import Settings
from .schema import Installable
from .terminal import said_in_one_line, say

_sql = click.option(
    "--sql", cls=CeleryOption, is_flag=True, help="Print the SQL instead of running it."
)


@click.command(cls=CeleryCommand)
@_sql
@click.pass_context
def install(ctx: click.Context, *, sql: bool) -> None:
    """Create the tables that a PostgreSQL store needs, or upgrade them to this version."""
    app = ctx.obj.app
    with said_in_one_line(app), closing(Settings.from_app(app).open_store()) as store:
        say(ctx, _prepared(store, sql=sql))


@click.command(cls=CeleryCommand)
@_sql
@click.pass_context
def upgrade(ctx: click.Context, *, sql: bool) -> None:
    """Prepare the store for this release, and count the processes of each format that use it.

    Run it once for each release, before the workers are restarted; workers may run meanwhile.
    """
    app = ctx.obj.app
    with said_in_one_line(app), closing(Settings.from_app(app).open_store()) as store:
        say(ctx, _prepared(store, sql=sql))
        if not sql:
            say(ctx, _processes(store))


def _prepared(store: Store, *, sql: bool) -> str:
    """Return the script, or what was installed."""
    if not isinstance(store, Installable):
        return "-- This store has no tables." if sql else "Nothing to do: this store has no tables."
    if sql:
        return store.script()
    added = store.install()
    return f"Installed version {added[-1]}." if added else "Nothing to do: it is up to date."


def _processes(store: Store) -> str:
    found = store.processes()
    counts = ", ".join(f"{count} of format {number}" for number, count in found.items())
    return f"Processes that use the store: {counts or 'none'}."
