"""Provide ``celery -A app semaphore lease``: change the lease of the whole store."""

from __future__ import annotations

from contextlib import closing

import click
from celery.bin.base import CeleryCommand

from ..core.facts import DescribedStore
from ..core.seconds import SHORTEST_LEASE_S
from ..core.store import Store
from ..settings import Settings
from .length import seconds_of
from .options import json_option
from .terminal import said_in_one_line, say

NO_NUMBER = "SECONDS must be a number above 0, such as 60, 60s or 2m."


@click.command(cls=CeleryCommand)
@click.argument("seconds", type=str)
@json_option
@click.pass_context
def lease(ctx: click.Context, seconds: str, *, as_json: bool) -> None:
    """Change the lease of the whole store to SECONDS, such as 60, 60s or 2m, for all processes that use it.

    Each process learns it at its next call; running tasks keep their permits. A permit for a parked task that is sent
    is kept for semaphore_take_up as this app sets it, or else for a lease.
    """
    app = ctx.obj.app
    with said_in_one_line(app):
        settings, wanted = Settings.from_app(app), _seconds(seconds)
        with closing(settings.open_store()) as store:
            before = _changed(store, wanted, settings)
    found = {"lease": wanted, "before": before, "own_lease": settings.lease}
    say(ctx, found if as_json else _told(wanted, before, settings.lease))


def _seconds(text: str) -> float:
    if (seconds := seconds_of(text)) is None:
        raise click.UsageError(NO_NUMBER)
    return seconds


def _changed(store: Store, seconds: float, settings: Settings) -> float | None:
    """Change the lease; return the one that the store kept before."""
    if 0 < seconds < SHORTEST_LEASE_S:  # no process could have it as its setting
        msg = f"SECONDS must be {SHORTEST_LEASE_S:g} or more."
        raise click.UsageError(msg)
    store.check()  # learns what the store keeps
    before = _kept(store)
    try:
        store.set_lease(seconds, settings.take_up)
    except ValueError as error:
        raise click.UsageError(NO_NUMBER) from error
    return before


def _told(seconds: float, before: float | None, own: float) -> str:
    was = "none was kept before" if before is None else f"it was {before:g} s"
    said = f"The lease of the store is {seconds:g} s now; {was}."
    if seconds != own:
        said += (
            f"\nsemaphore_lease is {own:g} s here: set it to {seconds:g}, too, because a store that loses its"
            " data takes the lease of its first caller."
        )
    return said


def _kept(store: Store) -> float | None:
    """Return the lease that the store keeps; None for one that was never used."""
    return store.about().lease if isinstance(store, DescribedStore) else store.lease
