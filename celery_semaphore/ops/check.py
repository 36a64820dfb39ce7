"""Provide ``celery -A app semaphore check``: whether a worker would start on this store, and what to improve."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import click
from celery.bin.base import CeleryCommand, CeleryOption

from ..core.facts import DescribedStore, StoreFacts
from ..core.formats import FORMAT
from ..core.store import Store
from ..errors import SemaphoreError
from ..settings import Settings
from ..version import __version__
from ..worker.task_checks import any_parks, errors_of
from .standing import standing
from .terminal import explained, say
from .waiting_place import WaitingPlace

UNKNOWN = "not told"


@dataclass(frozen=True)
class StoreCheck:
    """What was found at a store; it has no password."""

    release: str  # of this library
    reads_format: int
    errors: list[str]  # each keeps a worker from starting, or its limited tasks from running
    warnings: list[str]
    facts: StoreFacts | None  # None if the server does not answer, or the store has no such call
    waiting_place: str | None = (
        None  # where waiting tasks lie, and why; None if their options say it
    )

    task_errors: list[str] = field(default_factory=list)  # each keeps a worker from starting
    setting_errors: list[str] = field(default_factory=list)  # likewise; the store was not asked

    @property
    def usable(self) -> bool:
        return not (self.errors or self.task_errors or self.setting_errors)


def examined(store: Store, *, parks: bool) -> StoreCheck:
    """Examine a store as a worker does that starts, and ask it what it says of itself."""
    errors, warnings, facts = list[str](), list[str](), None
    try:
        warnings = store.check(parks=parks)
    except SemaphoreError as error:
        errors = [str(error)]
    with suppress(SemaphoreError):  # the same
        warnings = [*warnings, *standing(store)]
    if isinstance(store, DescribedStore):
        with suppress(SemaphoreError):  # what keeps it from answering is among the errors
            facts = store.about()
            warnings = [*warnings, *facts.notes]
    return StoreCheck(__version__, FORMAT, errors, warnings, facts)


def report_of(app: Any) -> StoreCheck:
    """Examine the settings of this app, its store and its tasks."""
    try:
        settings = Settings.from_app(app)
        opened = settings.open_store()
    except SemaphoreError as error:
        return replace(_unasked(), setting_errors=[explained(app, error)])
    try:
        with closing(opened) as store:
            found = examined(store, parks=any_parks(app.tasks.values(), settings))
            place = WaitingPlace(app, settings, store).of_any() if found.usable else None
            wrong = errors_of(app.tasks.values(), settings, prefork=True)  # a worker knows its pool
            return replace(found, waiting_place=place, task_errors=[*map(str, wrong)])
    except SemaphoreError as error:  # a mistake in the options of a task
        return replace(_unasked(), task_errors=[explained(app, error)])


def _unasked() -> StoreCheck:
    return StoreCheck(__version__, FORMAT, [], [], None)


def told(report: StoreCheck) -> str:
    """Return the report as text."""
    rows = _rows(report.facts) if report.facts else []
    rows += [
        ("release", f"celery_semaphore {report.release}, reads up to format {report.reads_format}")
    ]
    rows += [("waiting", report.waiting_place)] if report.waiting_place else []
    lines = [f"{name:<12}{value}" for name, value in rows]
    wrong = (*report.setting_errors, *report.errors, *report.task_errors)
    lines += ["", *(f"Error: {each}" for each in wrong)]
    lines += [f"Warning: {each}" for each in report.warnings]
    if report.setting_errors:
        return "\n".join([*lines, "No worker starts with these settings."])
    if report.errors:
        return "\n".join([*lines, "No worker can use this store."])
    if report.task_errors:
        return "\n".join([*lines, "No worker starts with these tasks."])
    return "\n".join([*lines, f"Workers can use this store; {len(report.warnings)} warning(s)."])


def _rows(facts: StoreFacts) -> list[tuple[str, str]]:
    rows = [("server", facts.server), ("address", facts.address)]
    rows += [("role", facts.role or UNKNOWN), ("durability", facts.durability or UNKNOWN)]
    if facts.lease is not None:
        rows += [("lease", f"{facts.lease:g} s")]
    if facts.tables is None:
        rows += [("eviction", facts.eviction or UNKNOWN)]
    else:
        rows += [("tables", f"version {facts.tables}" if facts.tables else "not installed")]
    return [*rows, ("format", "no records yet" if facts.format is None else str(facts.format))]


@click.command(cls=CeleryCommand)
@click.option("-j", "--json", "as_json", cls=CeleryOption, is_flag=True, help="As JSON.")
@click.pass_context
def check(ctx: click.Context, *, as_json: bool) -> None:
    """Examine the store and the tasks: server, rights, format, durability and eviction, and what to do about each.

    The exit code is 0 if workers can use the store and start with these tasks, also with warnings, and 1 if not.
    """
    app: Any = ctx.obj.app
    app.loader.import_default_modules()  # the tasks, which may park
    report = report_of(app)
    say(ctx, asdict(report) | {"usable": report.usable} if as_json else told(report))
    ctx.exit(int(not report.usable))
