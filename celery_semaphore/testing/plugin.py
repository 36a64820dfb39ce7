"""Provide fixtures for tests of limited tasks; pytest finds them where celery_semaphore is installed.

None of them does anything, or imports Celery, until a test uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ..core.key import resource_name
from ..core.snapshot import Snapshot
from ..errors import SemaphoreError
from ..settings import Settings
from .local import LocalStore, current_app, local_store, unlimited

# These fixtures come from celery.contrib.pytest and pytest-celery: a test that uses one of them means that app.
APPS = ("celery_app", "celery_session_app", "celery_setup_app")

TakeSnapshot = Callable[..., Snapshot]


@pytest.fixture
def semaphore_app(request: pytest.FixtureRequest) -> Any:
    """Return the app with the limits that are meant; override it if that is not the current app."""
    for name in APPS:
        if name in request.fixturenames:
            return request.getfixturevalue(name)
    return current_app()


@pytest.fixture
def semaphore_store(semaphore_app: Any) -> Iterator[LocalStore]:
    """Keep the app's permits in this process, in an empty store; name this fixture before ``celery_worker``."""
    with local_store(semaphore_app) as store:
        yield store


@pytest.fixture
def semaphores_unlimited(semaphore_app: Any, semaphore_store: LocalStore) -> Iterator[None]:
    """Switch off all limits in this test."""
    del semaphore_store  # it only has to be made first
    with unlimited(semaphore_app):
        yield


@pytest.fixture
def semaphore_snapshot(
    request: pytest.FixtureRequest, semaphore_app: Any
) -> Iterator[TakeSnapshot]:
    """Return a function, as in ``semaphore_snapshot("export", "7")``, that reads the test's store or the app's own."""
    if "semaphore_store" in request.fixturenames:
        store = request.getfixturevalue("semaphore_store")
    else:
        store = Settings.from_app(semaphore_app).open_store()

    def take(semaphore: str, key: Any = None) -> Snapshot:
        if key is not None and not isinstance(key, str):
            msg = f"semaphore_snapshot: key={key!r} must be a string, as a task's template makes it: {str(key)!r}."
            raise SemaphoreError(msg)
        seen: Snapshot = store.snapshot(resource_name(semaphore, key))
        return seen

    yield take
    store.close()
