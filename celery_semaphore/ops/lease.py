"""Provide ``celery -A app semaphore lease``: change the lease of the whole store."""

from __future__ import annotations

from contextlib import closing

import click
from celery.bin.base import CeleryCommand

from ..core.seconds import SHORTEST_LEASE_S
from ..core.store import Store
from ..settings import Settings
from .terminal import said_in_one_line, say


@click.command(cls=CeleryCommand)
@click.argument("seconds", type=float)
@click.pass_context
def lease(ctx: click.Context, seconds: float) -> None:
    """Change the lease of the whole store to SECONDS, for all processes that use it.

    Each learns it by its next call; running tasks keep their permits. Grants of parked tasks that are sent last for
    semaphore_take_up as this app sets it, else for a lease.
    """
    app = ctx.obj.app
    with said_in_one_line(app):
        settings = Settings.from_app(app)
        with closing(settings.open_store()) as store:
            say(ctx, _changed(store, seconds, settings))


def _changed(store: Store, seconds: float, settings: Settings) -> str:
    if 0 < seconds < SHORTEST_LEASE_S:  # no process could have it as its setting
        msg = f"SECONDS must be {SHORTEST_LEASE_S:g} or more."
        raise click.UsageError(msg)
    store.check()  # learns what the store keeps
    before = store.lease
    try:
        store.set_lease(seconds, settings.take_up)
    except ValueError as error:
        raise click.UsageError("SECONDS must be a number above 0.") from error
    said = f"The lease of the store is {seconds:g} s now; it was {before:g} s."
    if seconds != settings.lease:
        said += (
            f"\nsemaphore_lease is {settings.lease:g} s here: set it to {seconds:g}, too, for a store that loses its"
            " data takes the lease of its first caller."
        )
    return said
