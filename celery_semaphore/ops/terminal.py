"""Open the app's inspector for a command, print its output, and report errors in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from os import EX_UNAVAILABLE
from typing import Any

import click

from ..errors import ConfigurationError, SemaphoreError, StoreUnavailable
from ..settings import is_local
from ..task.unlimited import unlimited_of
from . import tables
from .inspector import Inspector
from .views import ResourceView

IDLE = 3  # the exit code where nothing is to be seen


class _Unavailable(click.ClickException):
    exit_code = EX_UNAVAILABLE


@contextmanager
def inspecting(ctx: click.Context, timeout: float = 0.0) -> Iterator[Inspector]:
    """Open the app's inspector; report errors in one line."""
    app = ctx.obj.app
    app.loader.import_default_modules()  # the tasks, which declare limits
    with said_in_one_line(app), closing(Inspector.of(app, timeout=timeout)) as inspector:
        yield inspector


def _refuse_memory(app: Any) -> None:
    """Raise where permits are kept in each process by itself: a command would show its own, which are none."""
    if is_local(str(app.conf.get("semaphore_url") or "")):
        msg = (
            "semaphore_url='memory://' keeps permits in the memory of each process, which no other can look into."
            " Set it to a server, such as redis://localhost:6379/0."
        )
        raise click.ClickException(msg)


@contextmanager
def said_in_one_line(app: Any) -> Iterator[None]:
    _refuse_memory(app)
    try:
        yield
    except StoreUnavailable as error:
        raise _Unavailable(str(error)) from error
    except SemaphoreError as error:
        raise click.ClickException(explained(app, error)) from error


def explained(app: Any, error: SemaphoreError) -> str:
    """Return the error's text, and what helps if no app was named."""
    # Celery's command line makes an app of this name if the user names none.
    is_unnamed = isinstance(error, ConfigurationError) and app.main == "default"
    return f"{error} Or name your app: celery -A …" if is_unnamed else str(error)


def refuse_unlimited(ctx: click.Context) -> None:
    """Print each task that declares a semaphore and is not limited, and end with the exit code 1 if there is one."""
    if wrong := list(unlimited_of(ctx.obj.app.tasks.values())):
        raise click.ClickException("\n".join(map(str, wrong)))


def say(ctx: click.Context, what: Any) -> None:
    ctx.obj.echo(what if isinstance(what, str) else json.dumps(what, indent=2))


def say_in_force(ctx: click.Context, inspector: Inspector, resource: str) -> None:
    """Print which limit is in force at this resource, and whether it is paused."""
    say(ctx, tables.in_force(inspector.in_force(resource), inspector.own_limits(resource)))
    if inspector.is_paused_with_its_semaphore(resource):
        say(ctx, "The whole semaphore is paused: resume that.")


def say_pause(ctx: click.Context, inspector: Inspector, resource: str, *, changed: bool) -> None:
    """Print what a pause or its end has changed."""
    if not changed:
        say(ctx, "Nothing changed.")
    say(ctx, tables.in_force(inspector.in_force(resource), {}))
    if stay := tables.stays_paused(inspector.paused_keys(resource)):
        say(ctx, stay)


def say_idle(ctx: click.Context, view: ResourceView, nearest: str | None) -> None:
    """Say that nothing uses this key, with the key that was probably meant, and end with a code of its own."""
    hint = "" if nearest is None else f"; the nearest key is {tables.printable(nearest)}"
    click.echo(f"{tables.place(view)}: no permits and no waits{hint}.", err=True)
    ctx.exit(IDLE)
