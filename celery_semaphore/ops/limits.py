"""Provide the commands that decide what is admitted: `limit`, `pause` and `resume`."""

from __future__ import annotations

import click
from celery.bin.base import CeleryCommand, CeleryOption

from ..core.claim import HIGHEST
from ..errors import SemaphoreError, UnknownSemaphore
from .inspector import Inspector
from .length import length
from .options import json_option, key_option, name_argument
from .terminal import inspecting, say_in_force, say_in_force_as_json, say_paused, say_resumed


def _length(_ctx: click.Context, _option: click.Parameter, text: str | None) -> float | None:
    try:
        return None if text is None else length(text)
    except SemaphoreError as error:
        raise click.BadParameter(str(error)) from error


@click.command(cls=CeleryCommand)
@name_argument
@click.argument("limit", type=click.IntRange(0, HIGHEST), required=False)
@click.option("--clear", cls=CeleryOption, is_flag=True, help="Clear the limit that was set here.")
@key_option
@click.option("-f", "--force", cls=CeleryOption, is_flag=True, help="Accept an unknown name.")
@json_option
@click.pass_context
def limit(
    ctx: click.Context,
    name: str,
    limit: int | None,
    key: str | None,
    *,
    clear: bool,
    force: bool,
    as_json: bool,
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
        inspector.set_limit(resource, limit)
        said = say_in_force_as_json if as_json else say_in_force
        said(ctx, inspector, resource, changed=was_set or not clear)


def _to_limit(inspector: Inspector, name: str, key: str | None, *, force: bool, clear: bool) -> str:
    try:
        return inspector.find(name, key, create=force and not clear)
    except UnknownSemaphore as error:
        hint = "" if clear else " To set its limit before it is used, add --force."
        raise SemaphoreError(f"{error}{hint}") from error


@click.command(cls=CeleryCommand)
@name_argument
@key_option
@click.option(
    "--for",
    "lasts",
    cls=CeleryOption,
    callback=_length,
    help="End after this time: 90s, 10m, 2h, 1d; at most 366d.",
)
@json_option
@click.pass_context
def pause(
    ctx: click.Context, name: str, key: str | None, lasts: float | None, *, as_json: bool
) -> None:
    """Start no new task until the semaphore is resumed; running tasks continue.

    All its keys are paused, even those with their own limit. If it is paused twice, the later end counts.
    """
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        changed = inspector.pause(resource, lasts)
        said = say_in_force_as_json if as_json else say_paused
        said(ctx, inspector, resource, changed=changed)


@click.command(cls=CeleryCommand)
@name_argument
@key_option
@json_option
@click.pass_context
def resume(ctx: click.Context, name: str, key: str | None, *, as_json: bool) -> None:
    """End a pause; the limit from before it is in force again, or the limit that was set during it.

    Keys with their own pause stay paused, and are listed: name them with --key.
    """
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        changed = inspector.resume(resource)
        said = say_in_force_as_json if as_json else say_resumed
        said(ctx, inspector, resource, changed=changed)
