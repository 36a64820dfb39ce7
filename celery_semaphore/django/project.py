"""The Django project's Celery app, and the semaphores that it uses."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, partial
from typing import Any

from celery import current_app

from ..core.store import Store
from ..errors import ConfigurationError
from ..ops.control import Heard, ask_workers, revoke
from ..ops.inspector import Inspector, declared_by
from ..settings import Settings
from .names import Names

ASK = 0.7  # seconds that workers have to answer
REVOKE = 2.0

Ask = Callable[[Collection[str]], Heard]


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


@cache
def with_tasks() -> Any:
    """The app, its tasks imported: a process that is no worker has none otherwise."""
    app = celery_app()
    app.loader.import_default_modules()
    return app


def inspector(*, ask: bool = False) -> Inspector:
    """The project's semaphores. The workers are asked for names of tasks only if you ``ask``."""
    app, names = with_tasks(), _names()
    return Inspector(
        _store(),
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
    for made in (with_tasks, _store, _names):
        made.cache_clear()
