"""``celery -A app semaphore …``: the inspector on the command line.

Celery loads this module with each of its commands, and before the project's own: it must be cheap to
import, and must not import what depends on the project, such as LimitedTask.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from os import EX_UNAVAILABLE
from typing import Any

import click
from celery.bin.base import CeleryCommand, CeleryOption, handle_preload_options

from ..errors import SemaphoreError, StoreUnavailable
from ..stores.asking import HIGHEST
from . import schema, tables
from .inspector import ASK, Inspector

KEYS = 50  # of a semaphore that are shown

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
    with _inspector(ctx) as inspector:
        views = inspector.semaphores()
    _say(ctx, [asdict(view) for view in views] if as_json else tables.semaphores(views))


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
    with _inspector(ctx, timeout) as inspector:
        resource = inspector.find(name, key)
        keys = [] if key is not None else inspector.keys(resource)
        view = inspector.resource(resource, waiters=waiters)
    if as_json:
        _say(ctx, asdict(view) | {"keys": [asdict(each) for each in keys]})
        return
    if view.occupied or view.waiting or not keys:
        _say(ctx, tables.resource(view))
    if keys:
        _say(ctx, f"{tables.keys(keys, KEYS)}\n\n--key shows who holds and who waits.")


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

    Cleared for one key, what was set for the whole semaphore is in force; else what the tasks declare.
    """
    if (limit is None) != clear:
        raise click.UsageError("give a LIMIT, or --clear.")
    with _inspector(ctx) as inspector:
        resource = inspector.find(name, key)
        if clear or not force:
            inspector.check(resource)
        inspector.set_limit(limit, resource)
        _say(ctx, tables.in_force(inspector.in_force(resource)))


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@click.pass_context
def pause(ctx: click.Context, name: str, key: str | None) -> None:
    """Let nobody new run, until it is resumed; those who run go on."""
    with _inspector(ctx) as inspector:
        resource = _known(inspector, name, key)
        inspector.pause(resource)
        _say(ctx, tables.in_force(inspector.in_force(resource)))


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@click.pass_context
def resume(ctx: click.Context, name: str, key: str | None) -> None:
    """End a pause: in force is what was set for the whole semaphore, else what the tasks declare."""
    with _inspector(ctx) as inspector:
        resource = _known(inspector, name, key)
        inspector.resume(resource)
        _say(ctx, tables.in_force(inspector.in_force(resource)))


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
    if not force:
        click.confirm(
            f"If {holder} still runs, one more than the limit will run. Release its permit?",
            abort=True,
        )
    with _inspector(ctx) as inspector:
        permit = inspector.release(holder, _known(inspector, name, key))
    _say(ctx, f"Released the permit of {permit.task_id}, held for {permit.held_for:.1f} s.")


@semaphore.command(name="next", cls=CeleryCommand)
@_name
@click.argument("task_ids", nargs=-1, required=True)
@_key
@click.pass_context
def next_(ctx: click.Context, name: str, task_ids: tuple[str, ...], key: str | None) -> None:
    """Let parked tasks run next, before all others that wait."""
    with _inspector(ctx) as inspector:
        inspector.promote(task_ids, _known(inspector, name, key))
    _say(ctx, f"Next: {', '.join(task_ids)}.")


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
    if not force:
        click.confirm(f"{len(task_ids)} waiting task(s) will never run. Revoke them?", abort=True)
    with _inspector(ctx, timeout) as inspector:
        inspector.drop(task_ids, _known(inspector, name, key))
    _say(ctx, "Revoked. A parked task ends within seconds, a requeued one when it comes back.")


@semaphore.command(cls=CeleryCommand)
@_name
@_key
@_force
@click.pass_context
def purge(ctx: click.Context, name: str, key: str | None, *, force: bool) -> None:
    """End all parked tasks of a semaphore, or of one KEY, without having run; needs no workers.

    Requeued ones lie with the broker: `celery purge` finds them.
    """
    if not force:
        click.confirm(f"All that are parked on {name} will never run. Purge them?", abort=True)
    with _inspector(ctx) as inspector:
        purged = inspector.purge(inspector.find(name, key))
    _say(ctx, f"Purged {len(purged)} parked task(s).")


@semaphore.command(cls=CeleryCommand)
@click.option("--sql", cls=CeleryOption, is_flag=True, help="Print what would be run, all of it.")
@click.pass_context
def install(ctx: click.Context, *, sql: bool) -> None:
    """Make the tables that a PostgreSQL store needs, or bring them up to this version."""
    with _said_in_one_line(), closing(schema.store_of(ctx.obj.app)) as store:
        if sql:
            _say(ctx, store.script())
        elif added := store.install():
            _say(ctx, f"Installed version {added[-1]}.")
        else:
            _say(ctx, "Nothing to do: this version is installed.")


semaphore.add_command(install, "upgrade")


class _Unavailable(click.ClickException):
    exit_code = EX_UNAVAILABLE


@contextmanager
def _inspector(ctx: click.Context, timeout: float = 0.0) -> Iterator[Inspector]:
    """That of the app; what goes wrong is said in one line."""
    app = ctx.obj.app
    app.loader.import_default_modules()  # the tasks, which declare limits
    with _said_in_one_line(), closing(Inspector.of(app, timeout=timeout)) as inspector:
        yield inspector


@contextmanager
def _said_in_one_line() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as error:
        raise _Unavailable(str(error)) from error
    except SemaphoreError as error:
        raise click.ClickException(str(error)) from error


def _say(ctx: click.Context, what: Any) -> None:
    ctx.obj.echo(what if isinstance(what, str) else json.dumps(what, indent=2))


def _known(inspector: Inspector, name: str, key: str | None) -> str:
    """The resource that is meant; its semaphore is no misspelt one."""
    resource = inspector.find(name, key)
    inspector.check(resource)
    return resource
