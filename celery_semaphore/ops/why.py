"""Provide the command `why`: what a task waits for, by its id."""

from __future__ import annotations

from dataclasses import asdict

import click
from celery.bin.base import CeleryCommand

from . import tables
from .options import json_option, timeout_option
from .reasons import reasons
from .task_view import TaskState, TaskView
from .terminal import IDLE, inspecting, say


@click.command(cls=CeleryCommand)
@click.argument("task_id")
@timeout_option
@json_option
@click.pass_context
def why(ctx: click.Context, task_id: str, timeout: float, *, as_json: bool) -> None:
    """Say why the task with this id waits, or that it runs, and with which permits.

    The exit code is 3 if neither the store nor a worker knows the task, and it has no result.
    """
    with inspecting(ctx, timeout) as inspector:
        view = inspector.why(task_id)
    say(ctx, asdict(view) if as_json else told(view))
    if view.state is TaskState.UNKNOWN:
        ctx.exit(IDLE)


def told(view: TaskView) -> str:
    """Return the sentences, and the permits that others hold where the task waits."""
    full = (wait.at for wait in view.waits if wait.state is TaskState.WAITS and wait.at.permits)
    note = f"Tasks and workers are not named: {view.note}." if view.note else ""
    parts = ["\n".join(reasons(view)), *map(tables.shown_permits, full), note]
    return "\n\n".join(filter(None, parts))
