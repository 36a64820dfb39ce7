"""Open the app's inspector for a command, print its output, and report errors in one line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from os import EX_UNAVAILABLE
from typing import Any

import click

from ..core.decision import Decision
from ..core.key import semaphore_of
from ..errors import ConfigurationError, SemaphoreError, StoreUnavailable
from ..settings import is_local
from ..stores import durations
from ..task.unlimited import unlimited_of
from . import answers, text
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
    with said_in_one_line(app), Inspector.of(app, timeout=timeout) as inspector:
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
    durations.logger.addFilter(_shortened)
    try:
        yield
    except StoreUnavailable as error:
        raise _Unavailable(str(error)) from error
    except SemaphoreError as error:
        raise click.ClickException(explained(app, error)) from error
    finally:
        durations.logger.removeFilter(_shortened)


def _shortened(record: logging.LogRecord) -> bool:
    """Shorten the warning about another lease, which each command would log in full."""
    if isinstance(record.args, tuple):
        record.args = (record.args[0], "`check` says what to do.")
    return True


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


def say_in_force(ctx: click.Context, inspector: Inspector, resource: str, *, changed: bool) -> None:
    """Print which limit is in force at this resource, and whether it is paused."""
    if not changed:
        say(ctx, "Nothing changed: no limit was set for this.")
    say(ctx, answers.in_force(inspector.in_force(resource), inspector.own_limits(resource)))
    if inspector.is_paused_with_its_semaphore(resource):
        say(ctx, "The whole semaphore is paused: resume that.")


def say_in_force_as_json(
    ctx: click.Context, inspector: Inspector, resource: str, *, changed: bool
) -> None:
    """Print the same as an object, also for a pause and its end."""
    view = asdict(inspector.in_force(resource))
    own, paused = inspector.own_limits(resource), inspector.paused_keys(resource)
    say(ctx, {"changed": changed} | view | {"own_limits": own, "paused_keys": paused})


def say_paused(ctx: click.Context, inspector: Inspector, resource: str, *, changed: bool) -> None:
    """Print how long the pause lasts now."""
    if not changed:
        say(ctx, "Nothing changed: it is already paused for as long, or longer.")
    view, own = inspector.in_force(resource), inspector.decided(resource).pause
    say(ctx, answers.in_force(view, {}))
    whole = inspector.decided(semaphore_of(resource)).pause
    if view.key is not None and own and whole:
        lasts = f"this key by itself {answers.until(own.left)}"
        say(ctx, f"The whole semaphore is paused {answers.until(whole.left)}, {lasts}.")
    if view.key is not None:
        _warn_of_no_keys(inspector, view)


def say_resumed(ctx: click.Context, inspector: Inspector, resource: str, *, changed: bool) -> None:
    """Print whether a pause was ended, and what is in force now."""
    view = inspector.in_force(resource)
    if changed:
        say(ctx, "Resumed.")
    else:
        typo = view.key is not None and view.is_free
        hint = _nearest(inspector.nearest_key(resource) if typo else None)
        say(ctx, f"Nothing changed: it was not paused{hint}.")
    say(ctx, answers.in_force(view, {}))
    if stay := answers.stays_paused(inspector.paused_keys(resource)):
        say(ctx, stay)


def say_idle(ctx: click.Context, inspector: Inspector, view: ResourceView) -> None:
    """Say that nothing is at this key, and which key was probably meant.

    End with a code of its own where no limit is in force there either.
    """
    if not view.is_free:
        return
    if view.is_unknown or inspector.decided(view.resource) == Decision():
        said = "no permits in use, nothing waiting" + ", no limit in force" * view.is_unknown
        hint = _nearest(inspector.nearest_key(view.resource))
        click.echo(f"{text.place(view)}: {said}{hint}.", err=True)
        _warn_of_no_keys(inspector, view)
    if view.is_unknown:
        ctx.exit(IDLE)


def _warn_of_no_keys(inspector: Inspector, view: ResourceView) -> None:
    if inspector.has_no_keys(view.resource):
        name = text.printable(view.semaphore)
        click.echo(f"Warning: no task of this app uses semaphore {name} with a key.", err=True)


def _nearest(key: str | None) -> str:
    return "" if key is None else f"; the nearest key is {text.printable(key)}"
