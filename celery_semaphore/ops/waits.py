"""Provide the commands that act on single permits and waits: `take-away`, `promote`, `drop` and `purge`."""

from __future__ import annotations

from dataclasses import asdict

import click
from celery.bin.base import CeleryCommand

from . import tables
from .directory import describe
from .options import force_option, json_option, key_option, name_argument, timeout_option
from .terminal import inspecting, say


@click.command(name="take-away", cls=CeleryCommand)
@name_argument
@click.argument("holder")
@key_option
@force_option
@json_option
@click.pass_context
def take_away(
    ctx: click.Context, name: str, holder: str, key: str | None, *, force: bool, as_json: bool
) -> None:
    """Take one permit away; HOLDER is a task id as `show` prints it.

    The task is not stopped: while it runs, one more task than the limit may run.
    """
    with inspecting(ctx) as inspector:
        resource = inspector.find(name, key)
        permit = inspector.permit_of(resource, holder)
        if not force:
            click.confirm(
                f"{describe(resource)}: {permit.task_id} has held a permit for {permit.held_for:.1f} s."
                " If it still runs, one more than the limit will run. Take it away?",
                abort=True,
                err=as_json,
            )
        permit = inspector.take_away(resource, permit.holder)
    said = f"Took away the permit of {permit.task_id}, held for {permit.held_for:.1f} s."
    say(ctx, asdict(permit) if as_json else said)


@click.command(cls=CeleryCommand)
@name_argument
@click.argument("task_ids", nargs=-1, required=True)
@key_option
@json_option
@click.pass_context
def promote(
    ctx: click.Context, name: str, task_ids: tuple[str, ...], key: str | None, *, as_json: bool
) -> None:
    """Let waiting tasks run before all other waiters."""
    with inspecting(ctx) as inspector:
        waiting = inspector.promote(inspector.find(name, key), task_ids)
    said = f"Promoted: {', '.join(task_ids)}."
    say(ctx, [asdict(each) for each in waiting] if as_json else said)


@click.command(cls=CeleryCommand)
@name_argument
@click.argument("task_ids", nargs=-1, required=True)
@key_option
@force_option
@timeout_option
@json_option
@click.pass_context
def drop(
    ctx: click.Context,
    name: str,
    task_ids: tuple[str, ...],
    key: str | None,
    timeout: float,
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Revoke waiting tasks: they end without having run."""
    with inspecting(ctx, timeout) as inspector:
        resource = inspector.find(name, key)
        waiting = inspector.tasks(resource, task_ids)
        if not force:
            click.confirm(
                f"{describe(resource)}: {len(waiting)} waiting task(s) will never run. Revoke them?",
                abort=True,
                err=as_json,
            )
        inspector.drop(resource, task_ids)
    said = "Revoked. Kept and parked tasks end within seconds, others when they are delivered."
    say(ctx, [asdict(each) for each in waiting] if as_json else said)


@click.command(cls=CeleryCommand)
@name_argument
@key_option
@force_option
@json_option
@click.pass_context
def purge(ctx: click.Context, name: str, key: str | None, *, force: bool, as_json: bool) -> None:
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
                err=as_json,
            )
        found = inspector.purge(resource)
    say(ctx, asdict(found) if as_json else tables.purged(found))
