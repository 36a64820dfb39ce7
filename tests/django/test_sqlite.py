"""Permits in the project's SQLite: CELERY_SEMAPHORE_URL = "django://default" where that is a file."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from celery_semaphore.core.store import Store
from tests.conftest import StartWorker
from tests.django.conftest import ENVIRONMENT
from tests.django.test_database import manage, run
from tests.support.counter import Counter
from tests.support.process import wait_until
from tests.support.sqlite import new_file, sqlite_store

TABLE = "SELECT count(*) FROM sqlite_master WHERE name = 'celery_semaphore_document'"
MIGRATE = ("migrate", "celery_semaphore")
INSTALL = ("-m", "celery", "-A", "tests.django.project", "semaphore", "install")
CHECK = ("-m", "celery", "-A", "tests.django.project", "semaphore", "check")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return new_file(tmp_path)


@pytest.fixture
def env(path: Path) -> dict[str, str]:
    return ENVIRONMENT | {"SQLITE": str(path), "STORE": "django://default"}


def tables(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (found,) = connection.execute(TABLE).fetchone()
    return int(found)


def test_migrate_makes_the_table_and_leaves_it(path: Path, env: dict[str, str]) -> None:
    refused = manage(env, "check", "--deploy", "--tag", "celery_semaphore", ok=False)
    assert "DATABASES['default'] has no table 'celery_semaphore_document'" in refused
    assert "manage.py migrate" in refused
    manage(env, *MIGRATE)
    assert tables(path) == 1
    said = manage(env, "check", "--deploy", "--tag", "celery_semaphore")
    assert "a file of this host" in said
    manage(env, *MIGRATE, "zero")
    manage(env, *MIGRATE)
    assert tables(path) == 1


def test_install_makes_the_table_and_migrate_may_find_it_there(
    path: Path, env: dict[str, str]
) -> None:
    assert "No worker can use this store." in run(env, *CHECK, ok=False)
    assert "CREATE TABLE" in run(env, *INSTALL, "--sql")
    assert tables(path) == 0
    assert "Installed version 1." in run(env, *INSTALL)
    assert "up to date" in run(env, *INSTALL)
    manage(env, *MIGRATE)
    said = run(env, *CHECK)
    assert "Workers can use this store; 2 warning(s)." in said
    assert "Give permits a file of their own" in said
    said = run(env | {"SQLITE_MODE": "IMMEDIATE"}, *CHECK)
    assert "Workers can use this store; 1 warning(s)." in said
    assert "tables      version 1" in said


@pytest.mark.variants
def test_what_sqlmigrate_shows_makes_the_table(path: Path, env: dict[str, str]) -> None:
    sql = manage(env, "sqlmigrate", "celery_semaphore", "0002")
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)
    assert tables(path) == 1


@pytest.mark.variants
def test_nothing_is_made_where_permits_are_kept_elsewhere(path: Path, env: dict[str, str]) -> None:
    manage(env | {"STORE": "redis://localhost"}, *MIGRATE, "--skip-checks")
    assert tables(path) == 0


SHOP = """
import json, django
django.setup()
from django.db import connection, transaction
from celery_semaphore.core.claim import Claim
from celery_semaphore.stores import store_from_url

claims = [Claim("api", None, 2)]
mine, others = (store_from_url("django://default") for _ in range(2))
try:
    with transaction.atomic():
        connection.cursor().execute("SELECT count(*) FROM celery_semaphore_document")
        mine.acquire(claims, "a:1")
        within = others.snapshot("api").occupied
        raise LookupError
except LookupError:
    pass
print(json.dumps([within, others.snapshot("api").occupied]))
"""


def test_a_permit_is_no_part_of_the_users_transaction(env: dict[str, str]) -> None:
    manage(env, *MIGRATE)
    assert json.loads(run(env, "-c", SHOP).splitlines()[-1]) == [1, 1]


TESTS = """
from django.test import TransactionTestCase
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores import store_from_url

class Shop(TransactionTestCase):
    def test_a_permit(self):
        store = store_from_url("django://default")
        assert isinstance(store.acquire([Claim("api", None, 1)], "a:1"), Permit)
        assert store._link._idle == []
"""


@pytest.mark.variants
def test_the_projects_own_tests_use_their_database(
    path: Path, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shop_tests.py").write_text(TESTS)
    found = os.pathsep.join([env["PYTHONPATH"], str(tmp_path)])
    assert "Ran 1 test" in manage(env | {"PYTHONPATH": found}, "test", "--noinput", "shop_tests")
    assert tables(path) == 0


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    with closing(sqlite_store(path)) as store:
        yield store


@pytest.fixture(params=["valkey", "rabbitmq_url"])
def broker(request: pytest.FixtureRequest) -> str:
    found = request.getfixturevalue(request.param)
    return str(getattr(found, "url", found))


@pytest.fixture(params=["requeue", "park"])
def work(request: pytest.FixtureRequest, env: dict[str, str], broker: str) -> dict[str, str]:
    return env | {"BROKER": broker, "POLICY": request.param}


@pytest.mark.slow
@pytest.mark.variants
def test_workers_keep_the_limit(
    work: dict[str, str], store: Store, counter: Counter, start_worker: StartWorker
) -> None:
    """Two workers of one host, and no server but the broker."""
    from celery import Celery

    manage(work, *MIGRATE)
    client = Celery("client", broker=work["BROKER"])
    for _ in range(2):
        start_worker("tests.django.counted", concurrency=4, env=work)
    for _ in range(40):
        client.send_task("visit", [0.05])
    wait_until(lambda: counter.stats("visits")["completed"] == 40, 60, "all have run")
    assert counter.stats("visits")["max_inside"] == 3
    wait_until(lambda: not [*store.resources()], 10, "all permits are back")
    client.close()
