"""The README's examples are complete: each is a module that a worker runs as it stands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from celery import Celery

from tests.support.process import ROOT
from tests.support.servers import ValkeyServer

from .conftest import StartWorker

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n# (\w+)\.py\n(.*?)```", README.read_text("utf-8"), re.DOTALL)

ADMITTED = """
from celery_semaphore import permit_acquired

@permit_acquired.connect
def tell(task_id, **_):
    print(f"admitted {task_id}", flush=True)
"""


def test_each_example_has_a_name() -> None:
    assert len(EXAMPLES) == README.read_text("utf-8").count("```python") == 8


@pytest.fixture
def examples(tmp_path: Path, valkey: ValkeyServer) -> Path:
    for name, text in EXAMPLES:
        code = text.replace("redis://localhost:6379/0", valkey.url)
        (tmp_path / f"{name}.py").write_text(code, "utf-8")
    sync = "from celery import shared_task\n\n\n@shared_task\ndef sync(): ...\n"
    (tmp_path / "otherlib").mkdir()
    (tmp_path / "otherlib" / "tasks.py").write_text(sync, "utf-8")
    (tmp_path / "admitted.py").write_text(ADMITTED, "utf-8")
    return tmp_path


WORKERS: dict[str, tuple[str, dict[str, tuple[object, ...]]]] = {
    "shop": (
        "training,alarms,ends",
        {"shop.call_api": (7,), "shop.export": ("a",), "training.train": ("a",)},
    ),
    "limited": ("otherlib.tasks", {"otherlib.tasks.sync": ()}),
}


@pytest.mark.parametrize("app", WORKERS)
def test_a_worker_runs_them(
    examples: Path, valkey: ValkeyServer, start_worker: StartWorker, app: str
) -> None:
    include, calls = WORKERS[app]
    backend = valkey.url.removesuffix("/0") + "/2"
    env = {"PYTHONPATH": f"{examples}:{ROOT}", "CELERY_RESULT_BACKEND": backend}
    worker = start_worker(app, options=["--include", f"{include},admitted"], env=env)
    client = Celery("client", broker=valkey.url, backend=backend, set_as_current=False)
    results = [client.send_task(*call) for call in calls.items() for _ in range(5)]
    for result in results:
        result.get(timeout=30)
        assert f"admitted {result.id}" in worker.log(), "it was limited"


def test_its_tests_pass(examples: Path) -> None:
    done = run(examples, "-m", "pytest", "-q", "-p", "no:valkey", "test_shop.py")
    assert "2 passed" in done.stdout, done.stdout + done.stderr


def test_its_script_looks_at_a_key(examples: Path) -> None:
    done = run(examples, "night.py")
    assert (done.stdout, done.stderr) == ("0 of 1 in use, 0 waiting\n", "")


def run(examples: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = f"{examples}{os.pathsep}{ROOT}"
    return subprocess.run(
        [sys.executable, *words],
        cwd=examples,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
