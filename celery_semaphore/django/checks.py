"""Define system checks: ``manage.py check`` reports what a worker would refuse, or warn of, at its start."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.conf import settings as project_settings
from django.core import checks
from django.core.checks import CheckMessage, Error, register

from ..core.facts import DescribedStore
from ..core.store import Store
from ..errors import ConfigurationError, StoreUnavailable
from ..ops.waiting_place import WaitingPlace
from ..settings import Settings, is_local
from ..worker.task_checks import any_parks, check_tasks, warnings_of
from .project import celery_app, with_tasks

TAG = "celery_semaphore"
GUIDE = "https://docs.celeryq.dev/en/stable/django/first-steps-with-django.html"


@register(TAG)  # type: ignore[untyped-decorator]
def check_project(**_: Any) -> list[CheckMessage]:
    """Check settings and tasks, without a call to the store."""
    try:
        app = celery_app()
    except ConfigurationError as error:
        return [checks.Warning(str(error), hint=f"See {GUIDE}", id=f"{TAG}.W001")]
    return [*_unread(app), *_settings(app), *_tasks(app)]


@register(TAG, deploy=True)  # type: ignore[untyped-decorator]
def check_store(**_: Any) -> list[CheckMessage]:
    """Check the store, only with ``check --deploy``: otherwise every command of manage.py would wait for it."""
    try:
        app = with_tasks()
        settings = Settings.from_app(app)
        store = settings.open_store()
        parks = any_parks(app.tasks.values(), settings)
    except Exception:  # noqa: BLE001 - the other check reports it
        return []
    try:
        warnings = [*store.check(parks=parks)]
        if parks or WaitingPlace(app, settings, store).parks() or is_local(settings.url):
            warnings += _notes(store)
        return [checks.Warning(said, id=f"{TAG}.W004") for said in warnings]
    except StoreUnavailable as error:
        waits = f"limited tasks wait until the store of semaphores can be reached: {error}"
        return [checks.Warning(waits, hint=_hint("semaphore_url"), id=f"{TAG}.W005")]
    except ConfigurationError as error:
        return [Error(str(error), id=f"{TAG}.E003")]
    finally:
        store.close()


def _notes(store: Store) -> Iterator[str]:
    """Return what the server says of itself that endangers waiting tasks and what operators set."""
    yield from store.about().notes if isinstance(store, DescribedStore) else ()


def _unread(app: Any) -> Iterator[CheckMessage]:
    """Find settings of ours that do not reach the app, which would then use a default."""
    for name in dir(project_settings):
        if not name.startswith("CELERY_SEMAPHORE_") or getattr(project_settings, name) is None:
            continue
        if app.conf.get(name.removeprefix("CELERY_").lower()) is None and name not in app.conf:
            yield checks.Warning(
                f"{name} is set, but the Celery app {app.main!r} does not read it.",
                hint="Call app.config_from_object('django.conf:settings', namespace='CELERY').",
                id=f"{TAG}.W002",
            )


def _settings(app: Any) -> Iterator[CheckMessage]:
    try:
        Settings.from_app(app).open_store()
    except ConfigurationError as error:
        yield Error(str(error), hint=_hint(str(error)), id=f"{TAG}.E001")


def _tasks(app: Any) -> Iterator[CheckMessage]:
    try:
        tasks = list(with_tasks().tasks.values())
        settings = _patient(app)
        check_tasks(tasks, settings, prefork=True)  # a worker knows its pool, and checks again
    except ConfigurationError as error:
        yield Error(str(error), id=f"{TAG}.E002")
    except Exception as error:  # noqa: BLE001 - a module of tasks may do anything; `migrate` must go on
        said = f"the tasks could not be imported, and are not checked: {error!r}"
        yield checks.Warning(said, id=f"{TAG}.W006")
    else:
        yield from (checks.Warning(said, id=f"{TAG}.W003") for said in warnings_of(tasks))


def _patient(app: Any) -> Settings:
    """Return the app's settings, or the defaults if they are wrong: another check reports that."""
    try:
        return Settings.from_app(app)
    except ConfigurationError:
        return Settings("")


def _hint(message: str) -> str | None:
    """Name Django's settings for those that a message mentions."""
    names = sorted({f"CELERY_{name.upper()}" for name in re.findall(r"\bsemaphore_\w+", message)})
    return f"In settings.py: {', '.join(names)}." if names else None
