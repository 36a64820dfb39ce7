"""What manage.py check says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.signals import import_modules

from celery_semaphore import LimitedTask
from celery_semaphore.stores.redis.facts import FORGETS
from tests.conftest import StartServer
from tests.django.conftest import ENVIRONMENT, MakeApp
from tests.support.process import ROOT, free_port
from tests.support.python import python
from tests.support.servers import ValkeyServer


def said(*, deploy: bool = False) -> list[Any]:
    from django.core.checks import run_checks

    found = run_checks(tags=["celery_semaphore"], include_deployment_checks=deploy)
    return [(each.id.removeprefix("celery_semaphore."), each.msg, each.hint) for each in found]


def one(**kwargs: bool) -> tuple[str, str, str | None]:
    [(number, message, hint)] = said(**kwargs)
    return number, message, hint


def test_nothing_is_said_of_a_project_that_is_right(project: Celery) -> None:
    assert said(deploy=True) == []


@pytest.mark.parametrize(
    ("setting", "value", "part"),
    [
        ("LEASE", "soon", "semaphore_lease='soon' must be a number"),
        ("ON_SATURATED", "pray", "semaphore_on_saturated='pray' is unknown"),
        ("URL", "reddis://localhost", "semaphore_url has the scheme 'reddis'"),
    ],
)
def test_a_wrong_setting_is_named_as_the_user_wrote_it(
    make_app: MakeApp, setting: str, value: str, part: str
) -> None:
    make_app(**{"CELERY_SEMAPHORE_URL": "memory://", f"CELERY_SEMAPHORE_{setting}": value})
    number, message, hint = one()
    assert number == "E001"
    assert part in message
    assert hint == f"In settings.py: CELERY_SEMAPHORE_{setting}."


def test_a_misspelt_setting_is_named(make_app: MakeApp) -> None:
    make_app(CELERY_SEMAPHORE_URL="memory://", CELERY_SEMAPHORE_LEESE=3)
    number, message, _ = one()
    assert number == "E001"
    assert "unknown setting CELERY_SEMAPHORE_LEESE; did you mean CELERY_SEMAPHORE_LEASE" in message


def test_a_missing_url_is_named(make_app: MakeApp) -> None:
    make_app(CELERY_BROKER_URL="amqp://localhost")
    number, message, hint = one()
    assert number == "E001"
    assert "semaphore_url is not set" in message
    assert hint == "In settings.py: CELERY_SEMAPHORE_URL."


def test_settings_that_the_app_does_not_read_are_named(make_app: MakeApp) -> None:
    make_app(CELERY_SEMAPHORE_LEASE=3)
    Celery("shop").conf.semaphore_url = "memory://"  # it reads none of the project's settings
    number, message, hint = one()
    assert number == "W002"
    assert "CELERY_SEMAPHORE_LEASE is set" in message
    assert "namespace='CELERY'" in (hint or "")


def test_settings_that_the_app_reads_without_their_namespace_are_wrong(make_app: MakeApp) -> None:
    app = make_app(namespace=None, CELERY_SEMAPHORE_LEASE=3)
    app.conf.semaphore_url = "memory://"
    number, message, _ = one()
    assert number == "E001"
    assert "CELERY_SEMAPHORE_LEASE is not read: write semaphore_lease instead" in message
    assert "namespace='CELERY'" in message


def test_a_setting_that_lacks_the_namespace_is_named(make_app: MakeApp) -> None:
    make_app(CELERY_BROKER_URL="memory://", SEMAPHORE_URL="redis://localhost")
    number, message, _ = one()
    assert number == "E001"
    assert "SEMAPHORE_URL is not read: write CELERY_SEMAPHORE_URL instead." in message
    # Where the right one is set, this one belongs to something else.
    make_app(CELERY_SEMAPHORE_URL="memory://", SEMAPHORE_URL="redis://localhost")
    assert said() == []


def test_a_setting_may_be_none_for_its_default(make_app: MakeApp) -> None:
    make_app(CELERY_SEMAPHORE_URL="memory://", CELERY_SEMAPHORE_LEASE=None)
    assert said() == []


def test_a_wrong_task_is_named(make_app: MakeApp) -> None:
    app = make_app(CELERY_SEMAPHORE_URL="memory://")

    @app.task(shared=False, base=LimitedTask, semaphore="api", limit=-1, name="wrong")
    def wrong() -> None: ...

    number, message, _ = one()
    assert number == "E002"
    assert "task wrong: limit=-1" in message


def test_tasks_that_contradict_each_other_are_named(make_app: MakeApp) -> None:
    app = make_app(CELERY_SEMAPHORE_URL="memory://")
    for limit in (1, 2):

        @app.task(shared=False, base=LimitedTask, semaphore="api", limit=limit, name=f"t{limit}")
        def task() -> None: ...

    number, message, _ = one()
    assert number == "W003"
    assert "declared with different limits" in message


def test_tasks_that_cannot_be_imported_stop_no_command(make_app: MakeApp) -> None:
    app = make_app(CELERY_SEMAPHORE_URL="memory://")

    def fail(**_: Any) -> None:
        raise RuntimeError("the tables are not there yet")

    import_modules.connect(fail, sender=app)
    try:
        number, message, _ = one()
    finally:
        import_modules.disconnect(fail, sender=app)
    assert number == "W006"
    assert "the tables are not there yet" in message


def test_the_store_is_asked_only_for_a_deployment(
    make_app: MakeApp, start_valkey: StartServer
) -> None:
    make_app(CELERY_SEMAPHORE_URL=f"redis://127.0.0.1:{free_port()}")
    assert said() == []
    number, message, hint = one(deploy=True)
    assert number == "W005"
    assert "limited tasks wait until the store" in message
    assert hint == "In settings.py: CELERY_SEMAPHORE_URL."
    make_app(CELERY_SEMAPHORE_URL=start_valkey(maxmemory_policy="allkeys-lru").url)
    number, message, _ = one(deploy=True)
    assert number == "E003"
    assert "allkeys-lru" in message


def test_a_server_that_keeps_nothing_is_named_where_tasks_park(
    make_app: MakeApp, valkey: ValkeyServer
) -> None:
    """As `celery semaphore check` does; its other warnings are for operators, not for each deployment."""

    def check(**settings: str) -> list[Any]:
        app = make_app(CELERY_SEMAPHORE_URL=valkey.url, **settings)

        @app.task(shared=False, base=LimitedTask, semaphore="api", limit=1, name="call_api")
        def call_api() -> None: ...

        return said(deploy=True)

    assert check(CELERY_BROKER_URL="memory://") == []  # there tasks are kept
    [(number, message, _)] = check(CELERY_BROKER_URL=valkey.url)
    assert (number, message) == ("W004", FORGETS)
    found = check(CELERY_BROKER_URL="memory://", CELERY_SEMAPHORE_ON_SATURATED="park")
    assert {number for number, *_ in found} == {"W004"}
    assert FORGETS in [message for _, message, _ in found]


def test_a_deployment_on_the_memory_of_each_process_is_named(make_app: MakeApp) -> None:
    make_app(CELERY_SEMAPHORE_URL="memory://")
    assert said() == []
    number, message, _ = one(deploy=True)
    assert number == "W004"
    assert "serves one process only" in message


def test_a_project_without_a_celery_app_is_told_how_to_get_one(tmp_path: Path) -> None:
    check = "import django; django.setup(); from django.core.management import call_command; call_command('check')"
    done = python("-c", check, env=ENVIRONMENT, cwd=tmp_path)
    assert done.returncode == 0
    assert "celery_semaphore.W001" in done.stderr
    assert "no Celery app was made" in done.stderr


PROJECT = """
from celery import Celery, shared_task
from celery_semaphore import LimitedTask

app = Celery("shop", broker="memory://")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.conf.semaphore_url = "memory://"

@shared_task(base=LimitedTask, semaphore="mail", limit=-1)
def mail(): ...

@shared_task(base=LimitedTask, semaphore="export", key="{tenant}", limit=2)
def export(tenant): ...
"""


def test_no_worker_starts_with_a_task_that_a_check_found_wrong(tmp_path: Path) -> None:
    """Django's checks are the first to bind the tasks of a worker, and Celery does not heed what they say."""
    (tmp_path / "wrong.py").write_text(PROJECT)
    done = subprocess.run(
        [sys.executable, "-m", "celery", "-A", "wrong", "worker", "--pool", "solo"],
        env=os.environ
        | {
            "DJANGO_SETTINGS_MODULE": "tests.django.settings",
            "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}",
            "C_FORCE_ROOT": "1",
        },
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode != 0
    assert "task wrong.mail: limit=-1" in done.stderr
    assert "ready." not in done.stderr
