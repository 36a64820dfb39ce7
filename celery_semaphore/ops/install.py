"""Provide ``celery -A app semaphore install`` and ``upgrade``."""

from __future__ import annotations

from contextlib import closing

import click
from celery.bin.base import CeleryCommand, CeleryOption

from ..core.store import Store
from ..errors import ConfigurationError
from ..settings import Settings
from .options import json_option
from .schema import Installable, Restorable
from .terminal import said_in_one_line, say
from .watch import refuse_both

RESTORED = "A new epoch has begun: tasks that run have two thirds of a lease to say so."
NOT_HERE = "--restored is for stores that keep documents: docs/operate says what to do after a restore of this one."

_sql = click.option(
    "--sql",
    cls=CeleryOption,
    is_flag=True,
    help="Print the SQL, or the commands, instead of running it.",
)
_restored = click.option(
    "--restored",
    cls=CeleryOption,
    is_flag=True,
    help="Begin an epoch: a backup of the tables was restored.",
)


@click.command(cls=CeleryCommand)
@_sql
@_restored
@json_option
@click.pass_context
def install(ctx: click.Context, *, sql: bool, restored: bool, as_json: bool) -> None:
    """Create the tables that a store in a database needs, or upgrade them to this version."""
    refuse_both(sql=sql, json=as_json)
    refuse_both(sql=sql, restored=restored)
    app = ctx.obj.app
    with said_in_one_line(app), closing(Settings.from_app(app).open_store()) as store:
        if sql:
            return say(ctx, _script(store))
        added = _added(store)
        if restored:
            _begin_epoch(store)
        told = [_told(added), *([RESTORED] if restored else [])]
        say(ctx, {"installed": added} if as_json else "\n".join(told))
    return None


@click.command(cls=CeleryCommand)
@_sql
@json_option
@click.pass_context
def upgrade(ctx: click.Context, *, sql: bool, as_json: bool) -> None:
    """Prepare the store for this release, and count the processes of each format that use it.

    Run it once for each release, before the workers are restarted; workers may run meanwhile.
    """
    refuse_both(sql=sql, json=as_json)
    app = ctx.obj.app
    with said_in_one_line(app), closing(Settings.from_app(app).open_store()) as store:
        if sql:
            return say(ctx, _script(store))
        added, found = _added(store), store.processes()
    if as_json:
        return say(ctx, {"installed": added, "processes": found})
    say(ctx, _told(added))
    return say(ctx, _processes(found))


def _script(store: Store) -> str:
    return store.script() if isinstance(store, Installable) else "-- This store has no tables."


def _added(store: Store) -> list[int] | None:
    """Install what is missing; return its versions, or None for a store that has no tables."""
    return store.install() if isinstance(store, Installable) else None


def _begin_epoch(store: Store) -> None:
    if not isinstance(store, Restorable):
        raise ConfigurationError(NOT_HERE)
    store.restored()


def _told(added: list[int] | None) -> str:
    if added is None:
        return "Nothing to do: this store has no tables."
    return f"Installed version {added[-1]}." if added else "Nothing to do: it is up to date."


def _processes(found: dict[int, int]) -> str:
    counts = ", ".join(f"{count} of format {number}" for number, count in found.items())
    return f"Processes that use the store: {counts or 'none'}."
