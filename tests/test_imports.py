"""What is imported when: Celery's command line and pytest load parts of this package before anything else."""

from __future__ import annotations

import subprocess
import sys

import pytest

import celery_semaphore


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
    with pytest.raises(AttributeError, match="LimitedTsk"):
        _ = celery_semaphore.LimitedTsk  # type: ignore[attr-defined]


def test_a_django_project_may_name_its_settings_after_the_package_was_imported() -> None:
    """As ``proj/celery.py`` does, which Celery's command line imports after our commands."""
    pytest.importorskip("django")
    code = (
        "import os, celery_semaphore.ops.cli; os.environ['DJANGO_SETTINGS_MODULE'] = 'proj';"
        "from celery_semaphore import LimitedTask; print(hasattr(LimitedTask, 'delay_on_commit'))"
    )
    assert run(code).split() == ["True"]
