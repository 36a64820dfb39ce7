"""Provide the commands that only look: `list` and `show`."""

from __future__ import annotations

from dataclasses import asdict

import click
from celery.bin.base import CeleryCommand, CeleryOption

from . import tables
from .drawing import is_drawn
from .options import json_option, key_option, name_argument, timeout_option
from .terminal import inspecting, refuse_unlimited, say, say_idle
from .views import KeyView, ResourceView, SemaphoreView, View
from .watch import refuse_both, watch_option, watching

KEYS = 50  # how many keys of a semaphore are shown


@click.command(name="list", cls=CeleryCommand)
@click.option(
    "-s",
    "--sort",
    cls=CeleryOption,
    type=click.Choice(["name", "oldest"]),
    default="name",
    show_default=True,
    help="Sort by name, or by the oldest wait, longest first.",
)
@watch_option
@json_option
@click.argument("names", nargs=-1)
@click.pass_context
def list_(
    ctx: click.Context, names: tuple[str, ...], sort: str, *, as_json: bool, watch: bool
) -> None:
    """List all semaphores, or those named: limit, permits in use, waiting tasks, and the longest wait.

    The exit code is 1 if a task declares a semaphore but is not limited.
    """
    refuse_both(watch=watch, json=as_json)
    with inspecting(ctx) as inspector:
        wanted = [inspector.find(name) for name in names]

        def seen() -> list[SemaphoreView]:
            views = inspector.semaphores()
            if sort == "oldest":
                views.sort(key=_oldest, reverse=True)
            return [view for view in views if not wanted or view.resource in wanted]

        if watch:
            watching(ctx, lambda: tables.semaphores(seen(), draws=is_drawn()))
        elif as_json:
            say(ctx, [asdict(view) for view in seen()])
        else:
            say(ctx, tables.semaphores(seen(), draws=is_drawn()))
    refuse_unlimited(ctx)


@click.command(cls=CeleryCommand)
@name_argument
@key_option
@click.option(
    "-w",
    "--waiters",
    cls=CeleryOption,
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Show at most this many waiters.",
)
@click.option(
    "-s",
    "--sort",
    cls=CeleryOption,
    type=click.Choice(["waiting", "oldest"]),
    default="waiting",
    show_default=True,
    help="Sort the keys by how many wait, or by the oldest wait, longest first.",
)
@timeout_option
@watch_option
@json_option
@click.pass_context
def show(
    ctx: click.Context,
    name: str,
    key: str | None,
    waiters: int,
    timeout: float,
    *,
    sort: str,
    as_json: bool,
    watch: bool,
) -> None:
    """Show one semaphore, or one KEY of it: its permits, and its waiters in order.

    The exit code is 3 if nothing holds a permit or waits at the KEY, and no limit is in force there.
    """
    refuse_both(watch=watch, json=as_json)
    with inspecting(ctx, timeout) as inspector:
        resource = inspector.find(name, key)

        def seen() -> tuple[ResourceView, list[KeyView]]:
            keys = [] if key is not None else inspector.keys(resource)
            if sort == "oldest":
                keys.sort(key=_oldest, reverse=True)
            return inspector.resource(resource, waiters=waiters), keys

        if watch:
            return watching(ctx, lambda: tables.whole(*seen(), KEYS, draws=is_drawn()))
        view, keys = seen()
        if as_json:
            say(ctx, asdict(view.with_keys(keys)) | {"keys": [asdict(each) for each in keys]})
        elif key is None or not view.is_unknown:
            say(ctx, tables.whole(view, keys, KEYS, draws=is_drawn()))
        if key is not None:
            say_idle(ctx, inspector, view)
    return None


def _oldest(view: View) -> float:
    return -1.0 if view.oldest_wait is None else view.oldest_wait
