"""A Django project in this process, on a database in memory and a real store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import pytest
from celery import Celery

from celery_semaphore import LimitedTask
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Answer
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from tests.support.process import ROOT
from tests.support.servers import ValkeyServer

# The environment of a process that finds the project.
ENVIRONMENT = {"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "tests.django.settings"}
# What its commands import before they read the settings.
DJANGO = (
    *("django.contrib.admin.sites", "django.contrib.staticfiles", "django.core.handlers.wsgi"),
    *("django.core.management.commands.migrate", "django.db.backends.postgresql.base"),
    *("django.db.backends.sqlite3.base", "django.test"),
)


@pytest.fixture(scope="session")
def django_project() -> Iterator[None]:
    """Django, set up and migrated."""
    # Only for a moment: Celery looks at it, and so would the workers and apps of other tests.
    with mock.patch.dict(os.environ, {"DJANGO_SETTINGS_MODULE": "tests.django.settings"}):
        import django

        django.setup()
    from django.core import mail
    from django.core.management import call_command
    from django.test.utils import setup_test_environment, teardown_test_environment

    if hasattr(mail, "outbox"):  # another folder of tests has set it up for this process
        yield
        return
    setup_test_environment()
    call_command("migrate", verbosity=0)
    yield
    teardown_test_environment()


@pytest.fixture
def database(django_project: None) -> Iterator[None]:
    """The database, as it was when the test ends."""
    from django.db import transaction

    with transaction.atomic():
        yield
        transaction.set_rollback(True)


MakeApp = Callable[..., Celery]


@pytest.fixture
def make_app(django_project: None) -> Iterator[MakeApp]:
    """Makes the project's Celery app, as it is with these settings."""
    from celery._state import _set_current_app, get_current_app
    from django.test import override_settings

    from celery_semaphore.django import project

    before, overridden = get_current_app(), []

    def make(namespace: str | None = "CELERY", **settings: Any) -> Celery:
        overridden.append(override_settings(**settings))
        overridden[-1].enable()
        project.forget()
        app = Celery("shop")
        app.config_from_object("django.conf:settings", namespace=namespace)
        return app

    yield make
    for settings in reversed(overridden):
        settings.disable()
    project.forget()
    _set_current_app(before)


@pytest.fixture
def store(valkey: ValkeyServer) -> Iterator[Store]:
    store = store_from_url(valkey.url)
    yield store
    store.close()


@pytest.fixture
def project(make_app: MakeApp, valkey: ValkeyServer, database: None) -> Celery:
    """An app that declares two semaphores and has no worker."""
    app = make_app(CELERY_SEMAPHORE_URL=valkey.url, CELERY_BROKER_URL="memory://")

    @app.task(shared=False, base=LimitedTask, semaphore="api", limit=2, name="call_api")
    def call_api() -> None: ...

    @app.task(
        shared=False, base=LimitedTask, semaphore="export", key="{tenant}", limit=1, name="export"
    )
    def export(tenant: str) -> None: ...

    return app


@pytest.fixture
def client(project: Celery) -> Callable[..., Any]:
    """Logs somebody in who may do so much; a superuser, if nothing is said."""
    from django.contrib.auth.models import Permission, User
    from django.test import Client

    def logged_in(*permissions: str) -> Any:
        user = User.objects.create_user(f"user {permissions}", password="p", is_staff=True)
        user.is_superuser = not permissions
        user.save()
        found = Permission.objects.filter(codename__in=[f"{p}_semaphore" for p in permissions])
        assert len(found) == len(permissions)
        user.user_permissions.set(found)
        client = Client()
        client.force_login(user)
        return client

    return logged_in


def occupy(store: Store, claim: Claim, holders: Sequence[str]) -> list[Answer]:
    """Who finds no room waits."""
    wait = Wait(Kind.REQUEUE, longest=3600, shortest=3000)
    return [store.acquire([claim], holder, wait) for holder in holders]
