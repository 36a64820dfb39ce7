"""The pytest plugin, as users have it: found by its entry point, in a pytest of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.process import ROOT

Run = Callable[..., str]

# Other plugins, most of all pytest-celery with Docker, take longer to import than these tests to run.
NEIGHBOURS = ("celery", "docker_tools", "hypothesispytest", "xdist")
NO_NEIGHBOURS = [word for name in NEIGHBOURS for word in ("-p", f"no:{name}")]

TASKS = """
from celery import Celery, shared_task
from celery_semaphore import LimitedTask

app = Celery("mine", broker="amqp://nobody.invalid//", set_as_current=True)
app.conf.semaphore_eager_timeout = 0.05

@shared_task(base=LimitedTask, bind=True, name="export", semaphore="export", limit=1, key="{tenant}")
def export(self, tenant):
    self.permit.check()
    return self.permit.token

@shared_task(base=LimitedTask, name="fails", semaphore="fails", limit=1, on_saturated="fail")
def fails(): ...
"""

# The plugin that Celery ships for projects, with a store in memory.
CELERY_IN_MEMORY = """pytest_plugins = ["celery.contrib.pytest"]

@pytest.fixture(scope="session")
def celery_config():
    return {"semaphore_url": "memory://"}
"""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def run(tests: str, *options: str, code: int = 0, beside: bool = False, **env: str) -> str:
        (tmp_path / "tasks.py").write_text(TASKS, "utf-8")
        (tmp_path / "test_it.py").write_text(tests, "utf-8")
        path = os.pathsep.join(filter(None, [env.pop("FIRST", ""), str(tmp_path), str(ROOT)]))
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:valkey",
            "-p",
            "no:cacheprovider",
        ]
        command += [] if beside else NO_NEIGHBOURS
        done = subprocess.run(
            [*command, *options, "test_it.py"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": path} | env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    return run


def test_eager_tasks_need_no_server(run: Run) -> None:
    tests = """
import pytest
from celery_semaphore import Semaphore, SemaphoreError, SemaphoreSaturated, SemaphoreTimeout
from tests.conformance.acquisition import limits_set
from celery_semaphore.core.claim import Claim
from celery_semaphore.testing import unlimited
from tasks import app, export, fails

def test_limits_hold(semaphore_store, semaphore_snapshot):
    semaphore_store.acquire([Claim("export", "a", 1)], "another")
    with pytest.raises(SemaphoreTimeout):
        export.apply(("a",), throw=True)
    assert export.apply(("b",), throw=True).get()
    assert [held.holder for held in semaphore_snapshot("export", "a").holders] == ["another"]
    assert semaphore_snapshot("export", "b").occupied == 0
    with pytest.raises(SemaphoreError, match="key=7 must be a string.*'7'"):
        semaphore_snapshot("export", 7)
    semaphore_store.set_limit(0, "fails")
    with pytest.raises(SemaphoreSaturated):
        fails.apply(throw=True)

def test_the_next_test_has_another_store(semaphore_snapshot, semaphore_store):
    assert limits_set(semaphore_store) == {}
    assert not list(semaphore_store.resources())

def test_they_are_switched_off(semaphores_unlimited, semaphore_store):
    semaphore_store.set_limit(0, "export")
    assert export.apply(("a",), throw=True).get() and export.apply(("a",), throw=True).get()

def test_they_are_switched_off_for_a_while(semaphore_store):
    semaphore_store.set_limit(0, "export")
    with unlimited():
        assert export.apply(("a",), throw=True).get()
    with pytest.raises(SemaphoreTimeout):
        export.apply(("a",), throw=True)

def test_they_are_switched_off_without_a_fixture():
    with unlimited(app), Semaphore("api", limit=0, url="redis://nobody.invalid/0", timeout=0.05):
        assert export.apply(("a",), throw=True).get()
    assert "_semaphore_limiter" not in app.__dict__
"""
    assert "5 passed" in run(tests, beside=True)


def test_semaphores_of_scripts_need_no_server_either(run: Run) -> None:
    tests = """
import pytest
from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.testing import MemoryStore, unlimited
from tasks import app

api = Semaphore("api", limit=1, url="redis://nobody.invalid/0", timeout=0.05)
mine = MemoryStore()
own = Semaphore("api", limit=1, store=mine)

def test_it(semaphore_store):
    with api as permit:
        assert api.holders()[0].holder == semaphore_store.snapshot("api").holders[0].holder
        with pytest.raises(SemaphoreTimeout):
            api.acquire()
        with unlimited(), api:
            assert semaphore_store.snapshot("api").occupied == 1
        with own:
            assert mine.snapshot("api").occupied == 1
    assert semaphore_store.snapshot("api").occupied == 0

def test_afterwards_its_own_server_counts():
    with pytest.raises(SemaphoreTimeout, match="nobody.invalid"):
        api.acquire(timeout=0)
"""
    assert "2 passed" in run(tests)


def test_coroutines_need_no_server_either(run: Run) -> None:
    tests = """
import asyncio
import pytest
from celery_semaphore import AsyncSemaphore, Semaphore, SemaphoreTimeout
from celery_semaphore.testing import unlimited

api = AsyncSemaphore("api", limit=1, url="redis://nobody.invalid/0", timeout=0.05)

async def use(store):
    async with api as permit:
        assert (await api.holders())[0].holder == store.snapshot("api").holders[0].holder
        with pytest.raises(SemaphoreTimeout):
            await api.acquire()
        with pytest.raises(SemaphoreTimeout):
            Semaphore("api", limit=1, url="redis://nobody.invalid/0").acquire(timeout=0)
        with unlimited():
            async with api:
                assert store.snapshot("api").occupied == 1
    assert store.snapshot("api").occupied == 0

def test_it(semaphore_store):
    asyncio.run(use(semaphore_store))

async def use_unlimited():
    async with api, api, api:
        pass

def test_without_limits(semaphores_unlimited):
    asyncio.run(use_unlimited())
"""
    assert "2 passed" in run(tests)


@pytest.mark.slow
def test_with_the_worker_of_celery_contrib_pytest(run: Run) -> None:
    tests = """
import tasks, time
from celery_semaphore.core.claim import Claim
from celery_semaphore.testing import unlimited

pytest_plugins = ["celery.contrib.pytest"]
CLAIM = [Claim("export", "a", 1)]

def test_limits_hold(semaphore_store, semaphore_snapshot, celery_worker):
    semaphore_store.acquire(CLAIM, "another")
    result = tasks.export.delay("a")
    end = time.time() + 20
    while not semaphore_snapshot("export", "a").waiting and time.time() < end:
        time.sleep(0.01)
    (waiter,) = semaphore_snapshot("export", "a").waiters
    assert result.id in waiter.ticket.nonce
    semaphore_store.release("another", CLAIM)
    assert result.get(timeout=20)

def test_again_with_another_worker(semaphore_store, celery_worker):
    assert tasks.export.delay("a").get(timeout=20)
    with unlimited(celery_worker.app):
        semaphore_store.set_limit(0, "export")
        assert tasks.export.delay("a").get(timeout=20)
"""
    assert "2 passed" in run(tests)


def test_a_store_that_comes_too_late(run: Run) -> None:
    tests = (
        """
import tasks
from celery_semaphore import *
import pytest

"""
        + CELERY_IN_MEMORY
        + """
def test_it(celery_worker, semaphore_store): ...
"""
    )
    said = run(tests, code=1)
    assert "ask for semaphore_store before celery_worker" in said


@pytest.mark.slow
def test_a_worker_of_the_session_has_a_store_of_the_session(run: Run) -> None:
    tests = """
import pytest, tasks
from celery_semaphore.testing import local_store

pytest_plugins = ["celery.contrib.pytest"]

@pytest.fixture(scope="session")
def store(celery_session_app):
    with local_store(celery_session_app) as store:
        yield store

@pytest.mark.parametrize("n", [1, 2])
def test_it(store, celery_session_worker, n):
    assert tasks.export.delay("a").get(timeout=20)

def test_not_with_one_that_lives_shorter(celery_session_worker, semaphore_store): ...
"""
    said = run(tests, code=1)
    assert "2 passed" in said
    assert "1 error" in said
    assert "use local_store(celery_session_app) in a fixture of the session" in said


def test_who_tests_no_tasks_has_no_part_in_it(run: Run, tmp_path: Path) -> None:
    for name in ("celery", "redis", "django", "psycopg"):
        code = "raise ImportError('there is no such thing')"
        (tmp_path / "nothing").mkdir(exist_ok=True)
        (tmp_path / "nothing" / f"{name}.py").write_text(code, "utf-8")
    tests = """
import sys

def test_it(pytestconfig):
    assert pytestconfig.pluginmanager.has_plugin("celery_semaphore")
    assert "celery_semaphore" in sys.modules
"""
    alone = ("-W", "error", "-p", "no:celery")  # pytest-celery imports Celery
    assert "1 passed" in run(tests, *alone, FIRST=str(tmp_path / "nothing"))


@pytest.mark.slow
def test_a_task_that_a_test_makes_when_its_worker_runs(run: Run) -> None:
    """As Celery's own documentation shows it."""
    tests = (
        """
import pytest
from celery_semaphore import LimitedTask

"""
        + CELERY_IN_MEMORY
        + """
def test_it(semaphore_store, semaphore_snapshot, celery_app, celery_worker):
    @celery_app.task(base=LimitedTask, semaphore="x", limit=1)
    def add(a, b):
        return a + b

    celery_worker.reload()
    results = [add.delay(n, n) for n in range(5)]
    assert [result.get(timeout=20) for result in results] == [0, 2, 4, 6, 8]

def test_without_our_store(celery_app, celery_worker):
    @celery_app.task(base=LimitedTask, semaphore="x", limit=1)
    def add(a, b):
        return a + b

    celery_worker.reload()
    with pytest.raises(Exception, match="registered after its worker had started"):
        add.delay(1, 1).get(timeout=20)
"""
    )
    assert "2 passed" in run(tests)
