"""Provide ``celery -A app semaphore …``: the inspector on the command line.

Celery loads it with each command, before the project's modules: it must be cheap, and not import LimitedTask.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
from celery.bin.base import CeleryCommand, CeleryOption, handle_preload_options

from ..core.permit import HIGHEST
from ..errors import SemaphoreError, UnknownSemaphore
from ..task.hidden_url import hide_url
from ..task.steps import watch_starts
from ..worker.main_process.inspection import add_inspect_command
from . import check, tables
from .directory import describe
from .inspector import ASK, Inspector
from .install import install, upgrade
from .lease import lease
from .length import length
from .metrics.command import metrics
from .purged_broker import say_what_a_purge_leaves
from .terminal import (
    inspecting,
    refuse_unlimited,
    say,
    say_idle,
    say_in_force,
    say_paused,
    say_resumed,
)

KEYS = 50  # how many keys of a semaphore are shown
hide_url()  # `celery report` would show the store's password, even in a project that imports no other module of ours
add_inspect_command()
watch_starts()
say_what_a_purge_leaves()

_name = click.argument("name")
_key = click.option("-k", "--key", cls=CeleryOption, help="One key of the semaphore.")
_json = click.option("-j", "--json", "as_json", cls=CeleryOption, is_flag=True, help="As JSON.")
_force = click.option(
    "-f", "--force", cls=CeleryOption, is_flag=True, help="Don't prompt for verification."
)
_timeout = click.option(
    "-t",
    "--timeout",
    cls=CeleryOption,
    type=click.FloatRange(0),
    default=ASK,
    show_default=True,
    help="Seconds to wait for the workers, which know the tasks' names; 0 does not ask them.",
)


def _length(_ctx: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else length(text)
    except SemaphoreError as error:
        raise click.BadParameter(str(error)) from error


@click.group(name="semaphore")
@click.pass_context
@handle_preload_options  # type: ignore[untyped-decorator]
def semaphore(ctx: click.Context, **_: Any) -> None:
    """Show held permits and waiting tasks, and set limits."""


@semaphore.command(name="list", cls=CeleryCommand)
@click.option(
    "-s",
    "--sort",
    cls=CeleryOption,
    type=click.Choice(["name", "oldest"]),
    default="name",
    show_default=True,
    help="Sort by name, or by the oldest wait, longest first.",
)
@_json
@click.pass_context
def list_(ctx: click.Context, sort: str, *, as_json: bool) -> None:
    """List all semaphores: limit, permits in use, waiting tasks, and how long the oldest has waited.

    The exit code is 1 if a task declares a semaphore but is not limited.
    """
    with inspecting(ctx) as inspector:
        views = inspector.semaphores()
    if sort == "oldest":
        views.sort(
            key=lambda view: -1.0 if view.oldest_wait is None else view.oldest_wait, reverse=True
        )
    say(ctx, [asdict(view) for view in views] if as_json else tables.semaphores(views))
    refuse_unlimited(ctx)


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@click.option(
    "-w",
    "--waiters",
    cls=CeleryOption,
    type=click.IntRange(0),
    default=20,
    show_default=True,
    help="Show at most this many waiters.",
)
@_timeout
@_json
@click.pass_context
def show(
    ctx: click.Context, name: str, key: str | None, waiters: int, timeout: float, *, as_json: bool
) -> None:
    """Show one semaphore, or one KEY of it: its permits, and its waiters in order.

    The exit code is 3 if nothing holds a permit or waits at the KEY, and no limit is in force there.
    """
    with inspecting(ctx, timeout) as inspector:
        resource = inspector.find(name, key)
        keys = [] if key is not None else inspector.keys(resource)
        view = inspector.resource(resource, waiters=waiters)
        nearest = inspector.nearest_key(resource) if key is not None and view.is_free else None
    if as_json:
        say(ctx, asdict(view.with_keys(keys)) | {"keys": [asdict(each) for each in keys]})
    elif key is None or not view.is_unknown:
        say(ctx, tables.whole(view, keys, KEYS))
    if key is not None:
        say_idle(ctx, view, nearest)


@semaphore.command(cls=CeleryCommand)
@_name
@click.argument("limit", type=click.IntRange(0, HIGHEST), required=False)
@click.option("--clear", cls=CeleryOption, is_flag=True, help="Clear the limit that was set here.")
@_key
@click.option("-f", "--force", cls=CeleryOption, is_flag=True, help="Accept an unknown name.")
@click.pass_context
def limit(
    ctx: click.Context, name: str, limit: int | None, key: str | None, *, clear: bool, force: bool
) -> None:
    """Set the LIMIT of a semaphore, or of one key, until it is cleared. Running tasks keep their permits.

    A pause stays: this changes the limit that is in force after it. A LIMIT of 0 is refused: use `pause` instead.

    A semaphore that is only used outside tasks is known while it is in use: use --force to set its limit earlier.

    A limit that is set for one key overrides that of the semaphore. Once it is cleared, the limit that was set for
    the whole semaphore is in force, or else the limit that the tasks declare.
    """
    if (limit is None) != clear:
        raise click.UsageError("give a LIMIT or --clear, and not both.")
    with inspecting(ctx) as inspector:
        resource = _to_limit(inspector, name, key, force=force, clear=clear)
        was_set = inspector.decided(resource).limit is not None
        inspector.set_limit(limit, resource)
        say_in_force(ctx, inspector, resource, changed=was_set or not clear)


def _to_limit(inspector: Inspector, name: str, key: str | None, *, force: bool, clear: bool) -> str:
    try:
        return inspector.find(name, key, create=force and not clear)
    except UnknownSemaphore as error:
        hint = "" if clear else " To set its limit before it is used, add --force."
        raise SemaphoreError(f"{error}{hint}") from error


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@click.option(
    "--for",
    "lasts",
    cls=CeleryOption,
    callback=_length,
    help="End after this time: 90s, 10m, 2h, 1d; at most 366d.",
)
@click.pass_context
def pause(ctx: click.Context, name: str, key: str | None, lasts: float | None) -> None:
    """Start no new task until the semaphore is resumed; running tasks continue.

    All its keys are paused, even those with their own limit. If it is paused twice, the later end counts.
    """
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        changed = inspector.pause(resource, lasts)
        say_paused(ctx, inspector, resource, changed=changed)


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@click.pass_context
def resume(ctx: click.Context, name: str, key: str | None) -> None:
    """End a pause; the limit from before it is in force again, or the limit that was set during it.

    Keys with their own pause stay paused, and are listed: name them with --key.
    """
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        changed = inspector.resume(resource)
        say_resumed(ctx, inspector, resource, changed=changed)


@semaphore.command(cls=CeleryCommand)
@_name
@click.argument("holder")
@_key
@_force
@click.pass_context
def release(ctx: click.Context, name: str, holder: str, key: str | None, *, force: bool) -> None:
    """Release one permit; HOLDER is a task id as `show` prints it.

    The task is not stopped: while it runs, one more task than the limit may run.
    """
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        permit = inspector.releasable(holder, resource)
        if not force:
            click.confirm(
                f"{describe(resource)}: {permit.task_id} has held a permit for {permit.held_for:.1f} s."
                " If it still runs, one more than the limit will run. Release it?",
                abort=True,
            )
        permit = inspector.release(permit.holder, resource)
    say(ctx, f"Released the permit of {permit.task_id}, held for {permit.held_for:.1f} s.")


@semaphore.command(name="next", cls=CeleryCommand)
@_name
@click.argument("task_ids", nargs=-1, required=True)
@_key
@click.pass_context
def next_(ctx: click.Context, name: str, task_ids: tuple[str, ...], key: str | None) -> None:
    """Let waiting tasks run next, before all other waiters."""
    with inspecting(ctx) as inspector:
        inspector.promote(task_ids, inspector.find(name, key))
    say(ctx, f"Next: {', '.join(task_ids)}.")


@semaphore.command(cls=CeleryCommand)
@_name
@click.argument("task_ids", nargs=-1, required=True)
@_key
@_force
@_timeout
@click.pass_context
def drop(
    ctx: click.Context,
    name: str,
    task_ids: tuple[str, ...],
    key: str | None,
    timeout: float,
    *,
    force: bool,
) -> None:
    """Revoke waiting tasks: they end without having run."""
    with inspecting(ctx, timeout) as inspector:
        resource = inspector.find(name, key)
        waiting = inspector.tasks(task_ids, resource)
        if not force:
            click.confirm(
                f"{describe(resource)}: {len(waiting)} waiting task(s) will never run. Revoke them?",
                abort=True,
            )
        inspector.drop(task_ids, resource)
    say(ctx, "Revoked. Kept and parked tasks end within seconds, others when they are delivered.")


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@_force
@click.pass_context
def purge(ctx: click.Context, name: str, key: str | None, *, force: bool) -> None:
    """End all tasks that wait for a semaphore, or for one KEY, without running them.

    Parked tasks end without a worker. Workers revoke the others; a task in transit ends when it is delivered. A task
    that no worker has received does not wait for the semaphore yet, and stays: `celery purge` deletes it.
    """
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        if not force:
            click.confirm(
                f"{describe(resource)}: {inspector.waiting(resource)} waiting."
                " The tasks among them will never run. Purge them?",
                abort=True,
            )
        say(ctx, tables.purged(inspector.purge(resource)))


semaphore.add_command(install)
semaphore.add_command(upgrade)
semaphore.add_command(check.check)
semaphore.add_command(lease)
semaphore.add_command(metrics)
