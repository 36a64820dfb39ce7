"""What is imported when: Celery's command line and pytest load parts of this package before anything else."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from typing import get_type_hints

import pytest

import celery_semaphore
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.snapshot import Held, Snapshot, Waiter


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_package_alone_loads_neither_celery_nor_a_driver() -> None:
    loaded = "import sys, celery_semaphore; print(*{n.partition('.')[0] for n in sys.modules})"
    assert not {"celery", "kombu", "redis", "psycopg", "django", "click"} & set(run(loaded).split())


def test_each_public_name_is_there() -> None:
    for name in celery_semaphore.__all__:
        assert getattr(celery_semaphore, name).__module__.startswith(("celery_semaphore", "celery"))
    assert set(celery_semaphore.__all__) <= set(dir(celery_semaphore))
    assert celery_semaphore.__version__ == version("celery-semaphore")
    with pytest.raises(AttributeError, match="LimitedTsk"):
        _ = celery_semaphore.LimitedTsk  # type: ignore[attr-defined]


@pytest.mark.parametrize("value", [Permit, Refusal, Held, Waiter, Snapshot])
def test_other_packages_can_read_the_types_of_what_users_get(value: type) -> None:
    """Pydantic does, for a field of such a type: it needs their names at run time."""
    assert len(get_type_hints(value)) > 1


def test_a_django_project_may_name_its_settings_after_the_package_was_imported() -> None:
    """As ``proj/celery.py`` does, which Celery's command line imports after our commands."""
    pytest.importorskip("django")
    code = (
        "import os, celery_semaphore.ops.cli; os.environ['DJANGO_SETTINGS_MODULE'] = 'proj';"
        "from celery_semaphore import LimitedTask; print(hasattr(LimitedTask, 'delay_on_commit'))"
    )
    assert run(code).split() == ["True"]


SENDS = """
import sys
from importlib.metadata import version
from celery import Celery
from celery_semaphore import LimitedTask

app = Celery("sends", broker="memory://", set_as_current=False)
app.conf.semaphore_url = "redis://nobody.invalid/0"

@app.task(base=LimitedTask, semaphore="one", limit=3, key="{of}")
def limited(of): ...

limited.delay("a")
limited.apply_async(("a",), semaphore_key="b", semaphore_weight=2)
assert limited.permit is None
print(*(name for name in sys.modules if name.startswith("celery_semaphore")))
"""


def test_a_process_that_only_sends_loads_no_code_of_workers() -> None:
    """A web server imports its tasks at each start, and forks; what runs tasks is most of this library."""
    loaded = run(SENDS).split()
    ours = {name.split(".")[1] for name in loaded if "." in name}
    assert ours == {"core", "errors", "task"}
    assert len(loaded) <= 35


RUNS = """
import sys
from importlib.metadata import version
from types import SimpleNamespace
import celery_semaphore.worker.main_process.bootstep

before = set(sys.modules)
import celery_semaphore.task.limited_task
from celery_semaphore.task import running

task = SimpleNamespace(request=SimpleNamespace(called_directly=True))
running.with_acquire(task, print)
running.permit_of(SimpleNamespace(semaphore_permit=1))
from celery_semaphore.worker.pool_process import gate
print(*(name for name in set(sys.modules) - before if name.startswith("celery_semaphore.worker")))
"""


def test_a_worker_loads_all_that_runs_tasks_before_it_forks() -> None:
    """Else each process of its pool would load it, and each again when it is replaced."""
    assert run(RUNS).split() == []
