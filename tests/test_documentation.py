"""The Python blocks of the README and of the pages below docs are complete modules, which run as they stand.

The first line of a block names its module. The modules of a page are written into one folder, beside those of the
README. A block that cannot run has a comment above it: `<!-- not run: the reason -->`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

from celery_semaphore import LimitedTaskMixin
from celery_semaphore.core.facts import StoreFacts
from celery_semaphore.ops.check import StoreCheck
from celery_semaphore.ops.views import PermitView, ResourceView, SemaphoreView, WaiterView
from celery_semaphore.settings import _CONVERTERS, _OF_THE_URL
from tests.conformance.each_command import EACH_COMMAND
from tests.support.process import ROOT, wait_until
from tests.support.servers import ValkeyServer

from .conftest import StartWorker

README = ROOT / "README.md"
PAGES = [README, *sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts)]
PROJECT = ROOT / "docs" / "quickstart-django.md"  # needs what `django-admin startproject` makes
BLOCK = re.compile(r"(<!-- not run: \S.*-->\n)?```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
NAME = re.compile(r"# ([\w/]+\.py)\n")
SERVER = "redis://localhost:6379/0"
Modules = dict[str, str]


def blocks(page: Path) -> list[str]:
    """Return the Python blocks of a page, but for those that say why they cannot run."""
    return [text for reason, text in BLOCK.findall(page.read_text("utf-8")) if not reason]


def modules(page: Path) -> Modules:
    return {found[1]: text for text in blocks(page) if (found := NAME.match(text))}


def module(name: str) -> str:
    """Return a module by its file's name; of several pages that have it, the first one's."""
    return next(found[name] for page in PAGES if name in (found := modules(page)))


def write(folder: Path, texts: Modules, server: ValkeyServer) -> None:
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_text("utf-8") if path.exists() else ""  # what startproject made
        path.write_text(before + text.replace(SERVER, server.url), "utf-8")


def run(folder: Path, *words: str) -> str:
    """Run Python in this folder, and return what it prints."""
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


WITH_BLOCKS = [page for page in PAGES if blocks(page)]
OF_MODULES = [page for page in WITH_BLOCKS if page != PROJECT]
WITH_TESTS = [p for p in OF_MODULES if any(name.startswith("test_") for name in modules(p))]


def test_there_are_pages() -> None:
    assert len(WITH_BLOCKS) > 15
    assert len(WITH_TESTS) > 2


@pytest.mark.parametrize("page", WITH_BLOCKS, ids=name_of)
def test_each_block_is_a_module_of_its_own(page: Path) -> None:
    assert len(modules(page)) == len(blocks(page))


# One process imports Celery once, and forks for each folder: a process each would take a second each.
IMPORT = """
import os
import sys
from importlib import import_module
from celery import Celery
import celery_semaphore.worker.main_process.bootstep
import pytest
for folder in sys.argv[1:]:
    if not os.fork():
        os.chdir(folder)
        sys.path.insert(0, folder)
        sys.stdout = open(os.devnull, "w")
        try:
            for name in open("names").read().split():
                for value in list(vars(import_module(name)).values()):
                    if isinstance(value, Celery):
                        value.finalize()  # checks the options of its tasks
        except BaseException as error:
            os.write(1, f"{folder}/{name}: {error!r}".encode())
        os._exit(0)
    os.wait()
"""


def test_all_modules_can_be_imported(tmp_path: Path, valkey: ValkeyServer) -> None:
    folders = []
    for page in OF_MODULES:
        texts = modules(page)
        folder = tmp_path / name_of(page).replace("/", "_")
        folder.mkdir()
        write(folder, modules(README) | texts, valkey)
        (folder / "names").write_text(" ".join(name.removesuffix(".py") for name in texts))
        folders.append(str(folder))
    assert run(tmp_path, "-c", IMPORT, *folders) == ""


@pytest.mark.parametrize("page", WITH_TESTS, ids=name_of)
def test_its_tests_pass(page: Path, tmp_path: Path, valkey: ValkeyServer) -> None:
    texts = modules(page)
    write(tmp_path, modules(README) | texts, valkey)
    words = ["-q", "-p", "no:valkey", "-p", "no:cacheprovider"]
    if any("StoreConformance" in text for text in texts.values()):
        # The page's store is the memory store, which passes all of them elsewhere: these need all that the page gives.
        words += ["-k", " or ".join(EACH_COMMAND)]
    said = run(tmp_path, "-m", "pytest", *words)
    assert re.search(r"\d passed", said), said


SAYS = {
    "night.py": r"0 of 1 in use, 0 waiting\n",
    "backfill.py": r"token \d+, 4 of 5 left\n7\n",
    "figures.py": r"(\w+: 0 in use, 0 waiting\n){2}",
}


@pytest.mark.parametrize("name", SAYS)
def test_what_a_script_says(name: str, tmp_path: Path, valkey: ValkeyServer) -> None:
    write(tmp_path, {"shop.py": module("shop.py"), name: module(name)}, valkey)
    said = run(tmp_path, name)
    assert re.fullmatch(SAYS[name], said), said


ADMITTED = """
from celery_semaphore import permit_acquired

@permit_acquired.connect
def tell(task_id, **_):
    print(f"admitted {task_id}", flush=True)
"""
SYNC = "from celery import shared_task\n\n\n@shared_task\ndef sync(): ...\n"
WORKERS: dict[str, dict[str, tuple[object, ...]]] = {
    "shop": {
        "shop.call_api": (7,),
        "shop.export": ("a",),
        "after.sync": ("a",),
        "exports.export_orders": ("a",),
        "gpu.classify": (7,),
        "gpu.fine_tune": (7,),
        "gpu.render": (7,),
        "regions.pack": (7,),
        "reports.report": ("May",),
        "training.train": ("a",),
        "ways.ship": (7,),
    },
    "limited": {"otherlib.tasks.sync": ()},
}
LISTENING = ["alarms", "ends"]  # modules with receivers of signals


@pytest.mark.parametrize("app", WORKERS)
def test_a_worker_runs_their_tasks_within_limits(
    tmp_path: Path, valkey: ValkeyServer, start_worker: StartWorker, app: str
) -> None:
    calls = WORKERS[app]
    imported = dict.fromkeys(name.rpartition(".")[0] for name in calls)
    ours = [app, *LISTENING, *(name for name in imported if "." not in name)]
    write(tmp_path, {f"{name}.py": module(f"{name}.py") for name in ours}, valkey)
    write(tmp_path, {"otherlib/tasks.py": SYNC, "admitted.py": ADMITTED}, valkey)
    include = [*imported, "admitted", *(LISTENING if app == "shop" else [])]
    backend = valkey.url.removesuffix("/0") + "/2"
    env = {"PYTHONPATH": f"{tmp_path}:{ROOT}", "CELERY_RESULT_BACKEND": backend}
    worker = start_worker(app, options=["--include", ",".join(include)], env=env)
    client = Celery("client", broker=valkey.url, backend=backend, set_as_current=False)
    results = [client.send_task(*call) for call in calls.items() for _ in range(5)]
    for result in results:
        result.get(timeout=30)
        assert f"admitted {result.id}" in worker.log(), "it was limited"


def test_the_django_project(
    tmp_path: Path, valkey: ValkeyServer, start_worker: StartWorker
) -> None:
    pytest.importorskip("django")
    run(tmp_path, "-m", "django", "startproject", "proj", ".")
    write(tmp_path, modules(PROJECT) | {"shop/__init__.py": ""}, valkey)
    assert "no issues" in run(tmp_path, "manage.py", "check")
    assert "celery_semaphore.0002" in run(tmp_path, "manage.py", "migrate")
    worker = start_worker("proj", env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    client = Celery("client", broker=valkey.url, set_as_current=False)
    sent = client.send_task("shop.tasks.export", (7,))
    wait_until(lambda: f"[{sent.id}] succeeded" in worker.log(), 30, "it runs", log=worker.log_tail)


def test_each_setting_and_option_is_described() -> None:
    def described(page: str) -> set[str]:
        return set(re.findall(r"`(\w+)`", (ROOT / "docs/reference" / page).read_text("utf-8")))

    settings = {f"semaphore_{name}" for name in (*_OF_THE_URL, *_CONVERTERS)}
    assert settings <= described("settings.md")
    options = {
        name for name in LimitedTaskMixin.__annotations__ if not name.startswith("semaphore_")
    }
    assert "wait_timeout" in options
    assert options <= described("options.md")


@pytest.mark.parametrize(
    ("table", "printed", "more"),
    [
        ("a semaphore", SemaphoreView, ()),
        ("a resource", ResourceView, ("keys",)),
        ("a permit", PermitView, ()),
        ("a waiter", WaiterView, ()),
        ("a check", StoreCheck, ("usable",)),
        ("the facts", StoreFacts, ()),
    ],
)
def test_the_fields_of_json_are_described(table: str, printed: Any, more: tuple[str, ...]) -> None:
    page = (ROOT / "docs/reference/cli.md").read_text("utf-8")
    _, found, after = page.partition(f"| field of {table} |")
    assert found
    rows = [line for line in after.partition("\n\n")[0].splitlines() if line.startswith("| `")]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(names) == sorted([*(field.name for field in fields(printed)), *more])


MAINTAIN = sorted((ROOT / "docs/maintain").glob("*.md"))
CODE = re.compile(r"`([\w/]+\.(?:py|lua|sql))(?::(\w+))?`")
STORES = ROOT / "celery_semaphore/stores"
FOLDERS = (
    *(ROOT, ROOT / "celery_semaphore", STORES),
    *(STORES / "redis/lua", STORES / "postgresql/v1"),
)
DEFINED = {
    ".py": r"^ *(?:class|def) {0}\b",
    ".lua": r"^(?:local function |function \w+\.){0}\(",
    ".sql": r"^CREATE (?:FUNCTION|TYPE) celery_semaphore\.{0}\b",
}


@pytest.mark.parametrize("page", MAINTAIN, ids=name_of)
def test_named_code_exists(page: Path) -> None:
    for name, part in CODE.findall(page.read_text("utf-8")):
        paths = [folder / name for folder in FOLDERS if (folder / name).exists()]
        assert len(paths) == 1, f"{name_of(page)} names {name}: {paths}"
        pattern, text = DEFINED[paths[0].suffix].format(part), paths[0].read_text("utf-8")
        defined = re.search(pattern, text, re.MULTILINE)
        assert not part or defined, f"{name_of(page)} names {part} of {name}"


def test_first_questions_name_functions() -> None:
    """A reader finds the answer at once: few of the names are whole files."""
    found = CODE.findall((ROOT / "docs/maintain/finding-your-way.md").read_text("utf-8"))
    assert len(found) > 60
    assert sum(1 for _, part in found if not part) < 15


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=name_of)
def test_links_lead_to_files(page: Path) -> None:
    """Sphinx looks at those of its own pages."""
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text("utf-8"))
    assert [each for each in links if not (ROOT / each).exists()] == []
