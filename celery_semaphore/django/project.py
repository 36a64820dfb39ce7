"""Find the Django project's Celery app, and the semaphores that it uses."""

from __future__ import annotations

from functools import cache, partial
from threading import RLock, local
from typing import Any

from ..core.store import Store
from ..errors import ConfigurationError
from ..ops.control import ask_workers, revoke
from ..ops.directory import declared_by, keyed_by
from ..ops.inspector import Inspector, purge_parked
from ..ops.task_finder import semaphores_of
from ..ops.task_result import result_of
from ..ops.waiting_place import WaitingPlace
from ..settings import Settings
from ..worker.celery_internals import app_behind_proxy
from .names import Names

ASK = 0.7  # seconds to wait for the workers' answers
REVOKE = 2.0

# Without this lock two first threads would open two stores, and one of these would never be closed.
_making = RLock()


def celery_app() -> Any:
    """Return the project's Celery app; raise ``ConfigurationError`` if there is none."""
    app = app_behind_proxy()
    if not app.fixups:  # Celery makes such an app if the project made none
        msg = (
            "no Celery app was made: let your project's __init__.py import it, as in"
            " `from .celery import app as celery_app`."
        )
        raise ConfigurationError(msg)
    return app


_importing = local()  # ``now`` is set in the thread that imports the tasks


def with_tasks() -> Any:
    """Return the app with its tasks imported: without this, only a worker has them.

    The import makes Celery run all of Django's checks, ours among them. During the import they get the tasks that are
    known so far; otherwise each check would import the tasks again, up to the recursion limit.
    """
    return celery_app() if getattr(_importing, "now", False) else _imported()


@cache
def _imported() -> Any:
    app = celery_app()
    _importing.now = True
    try:
        app.loader.import_default_modules()
    finally:
        _importing.now = False
    return app


@cache
def problem() -> str | None:
    """Return why some tasks' limits are unknown, or None. A failed import is not tried again: it rarely helps."""
    try:
        with_tasks()
    except Exception as error:  # noqa: BLE001 - a module of tasks may do anything; what is in use is shown
        return f"the tasks could not be imported, so not all that they declare is known: {error!r}"
    return None


def inspector() -> Inspector:
    """Return the inspector of the project's semaphores. It queries the workers for names of tasks, but seldom."""
    app = celery_app()
    with _making:
        problem()
        store, names, place = _store(), _names(), _place()
    return Inspector(
        store,
        declared=declared_by(app.tasks.values()),
        keyed=keyed_by(app.tasks.values()),
        ask=names.asked,
        revoke=partial(revoke, app, timeout=REVOKE),
        purge=partial(purge_parked, app, store),
        place=place.of,
        semaphores_of=partial(semaphores_of, app),
        result=partial(result_of, app),
    )


@cache
def _store() -> Store:
    return Settings.from_app(celery_app()).open_store()


@cache
def _place() -> WaitingPlace:
    app = celery_app()
    return WaitingPlace(app, Settings.from_app(app), _store())


@cache
def _names() -> Names:
    return Names(partial(ask_workers, celery_app(), timeout=ASK))


def forget() -> None:
    """Close the store and clear all caches, for tests that change settings."""
    if _store.cache_info().currsize:
        _store().close()
    for made in (_imported, problem, _store, _names, _place):
        made.cache_clear()
