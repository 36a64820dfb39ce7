"""``celery -A app semaphore …``: the inspector on the command line.

Celery loads this module with each of its commands, and before the project's own: it must be cheap to
import, and must not import what depends on the project, such as LimitedTask.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any

import click
from celery.bin.base import CeleryCommand, CeleryOption, handle_preload_options

from ..core.permit import HIGHEST
from ..worker.main_process.inspection import add_inspect_command
from ..worker.options.hidden_url import hide_url
from . import schema, tables
from .directory import describe
from .inspector import ASK
from .terminal import inspecting, known, said_in_one_line, say

KEYS = 50  # of a semaphore that are shown

hide_url()  # in `celery report`, of a project that may import nothing else of ours
add_inspect_command()

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
    help="Seconds that workers have to say which tasks these are; 0 does not ask them.",
)


@click.group(name="semaphore")
@click.pass_context
@handle_preload_options  # type: ignore[untyped-decorator]
def semaphore(ctx: click.Context, **_: Any) -> None:
    """See who holds permits and who waits, and set limits."""


@semaphore.command(name="list", cls=CeleryCommand)
@_json
@click.pass_context
def list_(ctx: click.Context, *, as_json: bool) -> None:
    """List all semaphores: limit, permits in use, waiting."""
    with inspecting(ctx) as inspector:
        views = inspector.semaphores()
    say(ctx, [asdict(view) for view in views] if as_json else tables.semaphores(views))


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
    help="Show so many of those who wait.",
)
@_timeout
@_json
@click.pass_context
def show(
    ctx: click.Context, name: str, key: str | None, waiters: int, timeout: float, *, as_json: bool
) -> None:
    """Show one semaphore, or one KEY of it: its permits, and who waits in which order."""
    with inspecting(ctx, timeout) as inspector:
        resource = inspector.find(name, key)
        keys = [] if key is not None else inspector.keys(resource)
        view = inspector.resource(resource, waiters=waiters)
    if as_json:
        say(ctx, asdict(view) | {"keys": [asdict(each) for each in keys]})
        return
    if view.occupied or view.waiting or not keys:
        say(ctx, tables.resource(view))
    if keys:
        say(ctx, f"{tables.keys(keys, KEYS)}\n\n--key shows who holds and who waits.")


@semaphore.command(cls=CeleryCommand)
@_name
@click.argument("limit", type=click.IntRange(0, HIGHEST), required=False)
@click.option("--clear", cls=CeleryOption, is_flag=True, help="Take back what was set for this.")
@_key
@click.option("-f", "--force", cls=CeleryOption, is_flag=True, help="Also for an unknown name.")
@click.pass_context
def limit(
    ctx: click.Context, name: str, limit: int | None, key: str | None, *, clear: bool, force: bool
) -> None:
    """Set the LIMIT of a semaphore, or of one key, until it is cleared; those who hold keep their permits.

    A limit that was set for one key is in force there, whatever is set for the semaphore. Cleared for one key,
    what was set for the whole semaphore is in force; else what the tasks declare.
    """
    if (limit is None) != clear:
        raise click.UsageError("give a LIMIT or --clear, and not both.")
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        if clear or not force:
            inspector.check(resource)
        inspector.set_limit(limit, resource)
        say(ctx, tables.in_force(inspector.in_force(resource), inspector.own_limits(resource)))


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@click.pass_context
def pause(ctx: click.Context, name: str, key: str | None) -> None:
    """Let nobody new run, until it is resumed; those who run go on.

    A key that has a limit of its own is not paused with its semaphore: name it with --key.
    """
    with inspecting(ctx) as inspector:
        resource = known(inspector, name, key)
        inspector.pause(resource)
        say(ctx, tables.in_force(inspector.in_force(resource), inspector.own_limits(resource)))


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@click.pass_context
def resume(ctx: click.Context, name: str, key: str | None) -> None:
    """End a pause, and whatever limit was set for the same before it.

    In force is then, for one key, what was set for the whole semaphore; else what the tasks declare.
    """
    with inspecting(ctx) as inspector:
        resource = known(inspector, name, key)
        inspector.resume(resource)
        say(ctx, tables.in_force(inspector.in_force(resource), inspector.own_limits(resource)))


@semaphore.command(cls=CeleryCommand)
@_name
@click.argument("holder")
@_key
@_force
@click.pass_context
def release(ctx: click.Context, name: str, holder: str, key: str | None, *, force: bool) -> None:
    """Take one permit away; HOLDER is a task's id as `show` tells it.

    Its task is not ended: while it runs there is one more than the limit.
    """
    with inspecting(ctx) as inspector:
        resource = known(inspector, name, key)
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
    """Let waiting tasks run next, before all others that wait."""
    with inspecting(ctx) as inspector:
        inspector.promote(task_ids, known(inspector, name, key))
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
    """Revoke tasks that wait: they end without having run."""
    with inspecting(ctx, timeout) as inspector:
        resource = known(inspector, name, key)
        waiting = inspector.tasks(task_ids, resource)
        if not force:
            click.confirm(
                f"{describe(resource)}: {len(waiting)} waiting task(s) will never run. Revoke them?",
                abort=True,
            )
        inspector.drop(task_ids, resource)
    say(
        ctx,
        "Revoked. A task that is held or parked ends within seconds, one in transit when it is delivered.",
    )


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@_force
@click.pass_context
def purge(ctx: click.Context, name: str, key: str | None, *, force: bool) -> None:
    """End all tasks that wait for a semaphore, or for one KEY, without having run.

    Parked ones need no workers for that. Workers revoke the others: those in transit end when they are delivered.
    """
    with inspecting(ctx) as inspector:
        resource = known(inspector, name, key)
        if not force:
            click.confirm(
                f"{describe(resource)}: {inspector.waiting(resource)} wait there. Their tasks will never run. Purge them?",
                abort=True,
            )
        say(ctx, tables.purged(inspector.purge(resource)))


@semaphore.command(cls=CeleryCommand)
@click.option("--sql", cls=CeleryOption, is_flag=True, help="Print what would be run, all of it.")
@click.pass_context
def install(ctx: click.Context, *, sql: bool) -> None:
    """Make the tables that a PostgreSQL store needs, or bring them up to this version."""
    with said_in_one_line(ctx.obj.app), closing(schema.store_of(ctx.obj.app)) as store:
        if sql:
            say(ctx, store.script())
        elif added := store.install():
            say(ctx, f"Installed version {added[-1]}.")
        else:
            say(ctx, "Nothing to do: this version is installed.")


semaphore.add_command(install, "upgrade")
