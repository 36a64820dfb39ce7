"""Permits in the project's own PostgreSQL: CELERY_SEMAPHORE_URL = "django://..."."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from subprocess import CompletedProcess
from uuid import uuid4

import psycopg
import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.postgresql.schema import SchemaName
from tests.django.conftest import DJANGO, ENVIRONMENT, MakeApp
from tests.support.postgres import PostgresServer
from tests.support.process import ROOT, Process
from tests.support.python import forked, python
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker


@pytest.fixture
def name(postgres_server: PostgresServer) -> str:
    """An empty database."""
    name = f"shop_{uuid4().hex}"
    postgres_server.add_database(name)
    return name


@pytest.fixture
def env(postgres_server: PostgresServer, name: str, valkey: ValkeyServer) -> dict[str, str]:
    return {
        **ENVIRONMENT,
        "BROKER": valkey.url,
        "STORE": "django://permits",
        "POSTGRES_NAME": name,
        "POSTGRES_PORT": str(postgres_server.port),
    }


def run(env: dict[str, str], *command: str, ok: bool = True) -> str:
    return said(python(*command, env=env), ok=ok)


def manage(env: dict[str, str], *words: str, ok: bool = True) -> str:
    return said(forked("tests.django.manage", *words, env=env, more=DJANGO), ok=ok)


def said(done: CompletedProcess[str], *, ok: bool) -> str:
    assert (done.returncode == 0) is ok, done.stderr
    return done.stdout + done.stderr


MIGRATE = ("migrate", "--database", "permits", "celery_semaphore")
BEAT = ("-A", "tests.django.project", "beat", "--pidfile=")
OPEN = "SELECT pid FROM pg_stat_activity WHERE application_name = 'shop'"
THERE = "SELECT to_regclass('celery_semaphore.installed') IS NOT NULL"


def test_migrate_installs_the_schema_and_may_find_it_there(
    postgres_server: PostgresServer, name: str, env: dict[str, str]
) -> None:
    refused = manage(env, "check", "--deploy", "--tag", "celery_semaphore", ok=False)
    assert "celery_semaphore.E003" in refused
    missing = manage(env | {"POSTGRES_NAME": "nowhere"}, "check", "--deploy", ok=False)
    assert "DATABASES['permits'] names a database that the server does not have" in missing
    manage(env, *MIGRATE)
    assert postgres_server.run(THERE, database=name) == [(True,)]
    manage(env, "check", "--deploy", "--tag", "celery_semaphore")
    manage(env, *MIGRATE, "zero")  # what is parked there stays
    assert postgres_server.run(THERE, database=name) == [(True,)]
    manage(env, *MIGRATE)
    assert postgres_server.run(
        "SELECT count(*) FROM celery_semaphore.installed", database=name
    ) == [(1,)]


def test_migrate_waits_for_somebody_who_installs_at_this_moment(
    postgres_server: PostgresServer, name: str, env: dict[str, str]
) -> None:
    command = [sys.executable, "-m", "tests.django.manage", *MIGRATE]
    waiting = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
    place = SchemaName()
    lock = f"SELECT pg_advisory_xact_lock(hashtextextended('{place.named('')}', 0))"
    with psycopg.connect(postgres_server.database(name)) as client:
        client.execute(lock.encode())
        with Process("migrate", command, env=env) as migrate:
            migrate.wait_until(
                lambda: postgres_server.run(waiting, database=name) == [(1,)], 30, "it waits"
            )
            client.execute(f"CREATE SCHEMA {place.schema}".encode())
            client.execute(place.sql(1).encode())
            client.commit()
            assert migrate.wait(30) == 0, migrate.log_tail()
    manage(env, "check", "--deploy", "--tag", "celery_semaphore")


def test_what_sqlmigrate_shows_installs_the_schema(
    postgres_server: PostgresServer, name: str, env: dict[str, str]
) -> None:
    sql = manage(env, "sqlmigrate", "--database", "permits", "celery_semaphore", "0002")
    assert sql.startswith("BEGIN;")
    with psycopg.connect(postgres_server.database(name), autocommit=True) as client:
        client.execute(sql.encode())
    manage(env, "check", "--deploy", "--tag", "celery_semaphore")


@pytest.mark.parametrize("store", ["django://default", "redis://localhost"])
def test_nothing_is_installed_where_permits_are_kept_elsewhere(
    postgres_server: PostgresServer, name: str, env: dict[str, str], store: str
) -> None:
    manage(env | {"STORE": store}, *MIGRATE, "--skip-checks")
    assert postgres_server.run(THERE, database=name) == [(False,)]


def test_no_migration_is_missing(env: dict[str, str]) -> None:
    manage(env, "makemigrations", "--check", "--dry-run", "celery_semaphore")


SHOP = """
import json, django
django.setup()
from django.db import connections, transaction
from celery_semaphore.core.claim import Claim
from celery_semaphore.stores import store_from_url

users, claims = connections["permits"], [Claim("api", None, 2)]
mine, others = (store_from_url("django://permits") for _ in range(2))
try:
    with transaction.atomic(using="permits"):
        with users.cursor() as cursor:
            cursor.execute("SELECT 1")
        mine.acquire(claims, "a:1")
        within = others.snapshot("api").occupied
        raise LookupError
except LookupError:
    pass
with transaction.atomic(using="permits"), users.cursor() as cursor:
    cursor.execute("SHOW transaction_isolation")
    [level] = cursor.fetchone()
    cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'shop'")
    [sessions] = cursor.fetchone()
print(json.dumps([within, others.snapshot("api").occupied, level, sessions]))
"""


def test_a_permit_is_no_part_of_the_users_transaction(env: dict[str, str]) -> None:
    manage(env, *MIGRATE)
    within, after, level, sessions = json.loads(run(env, "-c", SHOP).splitlines()[-1])
    assert (within, after) == (1, 1)
    assert level == "serializable"
    assert sessions == 3  # the user's one, of a pool of one; and one of each store


ROLE = """
import django
django.setup()
from celery_semaphore.stores import store_from_url
store = store_from_url("django://permits")
print(store._link.ask(lambda connection: connection.query("SELECT current_user")))
"""


def test_the_role_that_django_assumes_is_assumed(
    postgres_server: PostgresServer, env: dict[str, str]
) -> None:
    role = f"a keeper\\ {uuid4().hex}"
    postgres_server.run(f'CREATE ROLE "{role}"')
    assert run(env | {"ROLE": role}, "-c", ROLE).strip() == str([[role]])


def test_a_worker_keeps_its_permits_there(
    postgres_server: PostgresServer, name: str, env: dict[str, str]
) -> None:
    manage(env, *MIGRATE)
    from celery import Celery

    client = Celery("client", broker=env["BROKER"])
    store = store_from_url(postgres_server.database(name))
    with CeleryWorker("tests.django.project", concurrency=3, env=env) as worker:
        for _ in range(3):
            client.send_task("call_api", [300])
        worker.wait_until(lambda: store.snapshot("api").occupied == 2, 20, "two permits")
        worker.wait_until(lambda: "is parked" in worker.log(), 20, "a third that waits")
        worker.kill_group()
    store.close()


def test_a_callable_that_asks_the_database_gets_a_new_connection_each_time(
    postgres_server: PostgresServer, name: str, env: dict[str, str]
) -> None:
    """As each run does: the database may have closed the old one while the task waited."""
    from celery import Celery

    client = Celery("client", broker=env["BROKER"], backend=env["BROKER"])
    store, occupied = store_from_url(env["BROKER"]), Claim("asked", "7", 1)
    store.acquire([occupied], "other")
    env |= {"STORE": env["BROKER"], "BACKEND": env["BROKER"]}
    with CeleryWorker("tests.django.asking", concurrency=1, env=env) as worker:
        result = client.send_task("ask")
        worker.wait_until(lambda: f"ask[{result.id}] is parked" in worker.log(), 20, "it waits")
        worker.wait_until(lambda: not postgres_server.run(OPEN), 10, "it closes its connection")
        store.release("other", [occupied])
        assert result.get(timeout=20) == "ran"
    store.close()


EVERY_SECOND = """
from django_celery_beat.models import IntervalSchedule, PeriodicTask
second, _ = IntervalSchedule.objects.get_or_create(every=1, period="seconds")
PeriodicTask.objects.create(name="tenant 7", task="export", kwargs='{"tenant": "7"}', interval=second)
"""


def test_beside_django_celery_results_and_beat(
    postgres_server: PostgresServer, name: str, env: dict[str, str]
) -> None:
    """All of a project in one database: permits, results and what beat sends."""
    pytest.importorskip("django_celery_beat", reason="does not go with this Django yet")
    env |= {"NEIGHBOURS": "1", "STORE": "django://default", "BACKEND": "django-db"}
    manage(env, "migrate", "--skip-checks")
    manage(env, "check", "--deploy", "--tag", "celery_semaphore")
    manage(env, "shell", "-c", EVERY_SECOND)

    def count(task: str, state: str) -> int:
        query = "SELECT task_name, status FROM django_celery_results_taskresult"
        return postgres_server.run(query, database=name).count((task, state))

    from celery import Celery

    client = Celery("client", broker=env["BROKER"])
    beat = Process("beat", [sys.executable, "-m", "celery", *BEAT], env=env)
    with CeleryWorker("tests.django.project", concurrency=3, env=env) as worker, beat:
        for _ in range(2):
            client.send_task("copy_disk", [300])
        worker.wait_until(lambda: count("copy_disk", "WAITING") == 1, 30, "one that waits")
        worker.wait_until(lambda: count("export", "SUCCESS") >= 2, 30, "two exports by beat")


TESTS = """
from django.test import TestCase
from tests.django.project import export

class Shop(TestCase):
    databases = ["default", "permits"]

    def test_an_export(self):
        export.apply(("7",), throw=True)
"""


def test_the_projects_own_tests_leave_no_connection_that_keeps_their_database(
    postgres_server: PostgresServer, name: str, env: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "shop_tests.py").write_text(TESTS)
    path = os.pathsep.join([env["PYTHONPATH"], str(tmp_path)])
    said = manage(env | {"PYTHONPATH": path}, "test", "--noinput", "shop_tests")
    assert "Ran 1 test" in said
    left = postgres_server.run("SELECT datname::text FROM pg_database")
    assert (name,) in left
    assert (f"test_{name}",) not in left


@pytest.mark.parametrize(
    ("url", "said"),
    [
        (
            "django://default",
            "DATABASES['default'] is a database in the memory of one connection",
        ),
        ("django://elsewhere", "DATABASES has no 'elsewhere'; it has django://default"),
        ("django://", "must name an entry of DATABASES"),
        ("django://default/0", "must name an entry of DATABASES"),
    ],
)
def test_a_wrong_alias_is_an_error_that_says_what_to_do(
    make_app: MakeApp, url: str, said: str
) -> None:
    from django.core.checks import run_checks

    make_app(CELERY_SEMAPHORE_URL=url)
    [found] = run_checks(tags=["celery_semaphore"])
    assert (found.id, found.hint) == (
        "celery_semaphore.E001",
        "In settings.py: CELERY_SEMAPHORE_URL.",
    )
    assert said in found.msg


def test_without_a_project_there_is_an_error() -> None:
    code = "from celery_semaphore.stores import store_from_url as s; s('django://default')"
    said = run({"PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": ""}, "-c", code, ok=False)
    assert "ConfigurationError: semaphore_url='django://default' needs a Django project" in said
