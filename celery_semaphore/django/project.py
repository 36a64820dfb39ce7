"""The Django project's Celery app, and the semaphores that it uses."""

from __future__ import annotations

from functools import cache, partial
from threading import RLock, local
from typing import Any

from celery import current_app

from ..core.store import Store
from ..errors import ConfigurationError
from ..ops.control import ask_workers, revoke
from ..ops.directory import declared_by
from ..ops.inspector import Inspector
from ..settings import Settings
from .names import Names

ASK = 0.7  # seconds that workers have to answer
REVOKE = 2.0

_making = (
    RLock()
)  # two threads that come first would make two stores, and nobody would close one of them


def celery_app() -> Any:
    """The project's Celery app; raises ``ConfigurationError`` where there is none."""
    app = current_app._get_current_object()  # noqa: SLF001 - Celery's way to look behind its proxy
    if not app.fixups:  # what Celery itself makes up where nobody made an app
        msg = (
            "no Celery app was made: let your project's __init__.py import it, as in"
            " `from .celery import app as celery_app`."
        )
        raise ConfigurationError(msg)
    return app


_importing = local()  # ``now`` is set in the thread that imports the tasks


def with_tasks() -> Any:
    """Return the app with its tasks imported: a process that is no worker has none otherwise.

    The import makes Celery run all of Django's checks, ours among them: while it lasts the tasks that are there so far
    have to do. Without this each check would import the tasks anew, and so on to the recursion limit.
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
    """Why not all that the tasks declare is known. Tried once: an import that failed is rarely mended by another."""
    try:
        with_tasks()
    except Exception as error:  # noqa: BLE001 - a module of tasks may do anything; what is in use is shown
        return f"the tasks could not be imported, so not all that they declare is known: {error!r}"
    return None


def inspector(*, ask: bool = False) -> Inspector:
    """The project's semaphores. The workers are asked for names of tasks only if you ``ask``."""
    app = celery_app()
    with _making:
        problem()
        store, names = _store(), _names()
    return Inspector(
        store,
        declared=declared_by(app.tasks.values()),
        ask=names.asked if ask else names.remembered,
        revoke=partial(revoke, app, timeout=REVOKE),
    )


@cache
def _store() -> Store:
    return Settings.from_app(celery_app()).open_store()


@cache
def _names() -> Names:
    return Names(partial(ask_workers, celery_app(), timeout=ASK))


def forget() -> None:
    """Begin anew, as tests do that change settings."""
    if _store.cache_info().currsize:
        _store().close()
    for made in (_imported, problem, _store, _names):
        made.cache_clear()
