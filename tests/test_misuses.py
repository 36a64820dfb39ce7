"""What a new user writes wrong, and the answer to each: it names the value, and what to write instead.

A ``…`` of an answer stands for any text.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from celery import Celery, Task

import celery_semaphore
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.settings import Settings
from celery_semaphore.worker.main_process.bootstep import SemaphoreStep
from celery_semaphore.worker.options.task_checks import check_tasks
from celery_semaphore.worker.steps import STEPS
from tests.ops.conftest import Command


class Shop(Celery):
    """An app without a server; its tasks belong to no other app."""

    def task(self, *args: Any, **options: Any) -> Any:
        return super().task(*args, **{"shared": False, **options})


@pytest.fixture
def app() -> Celery:
    app = Shop("shop", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    return app


def run(code: str, app: Celery) -> None:
    names = {name: getattr(celery_semaphore, name) for name in celery_semaphore.__all__}
    exec(code, {**names, "app": app, "Task": Task, "__name__": "shop"})  # noqa: S102


def answer(text: str) -> str:
    """Return the pattern of an answer."""
    return "(?s)" + ".*".join(map(re.escape, text.split("…")))


# -- tasks that only seem to be limited: no worker starts

UNLIMITED: list[tuple[str, str]] = [
    (
        """
@app.task(semaphore="api", limit=5)
def call(): ...
""",
        (
            "task shop.call: semaphore='api' is set, but the task is not limited: its class does not come from"
            ' LimitedTask. Declare it with base=LimitedTask…Celery(task_cls="celery_semaphore:LimitedTask")'
        ),
    ),
    (
        """
@app.task(semaphore=[Limit("api", 5), Limit("db", 2)])
def call(): ...
""",
        "task shop.call: semaphore=[Limit(semaphore='api', limit=5…base=LimitedTask",
    ),
    (
        """
class Mine(LimitedTask):
    abstract = True

    @classmethod
    def on_bound(cls, app):
        cls.prepared = True

@app.task(base=Mine, semaphore="api", limit=5)
def call(): ...
""",
        (
            "task shop.call: semaphore='api' is set, but the task is not limited: the on_bound of its class Mine does"
            " not call super().on_bound(app)"
        ),
    ),
    (
        """
class Mine(Task): ...

class Ours(Mine, LimitedTaskMixin): ...
""",
        (
            "class Ours: its tasks would not be limited, since the methods of Mine go before…"
            "Put the mixin first: class Ours(LimitedTaskMixin, Mine)."
        ),
    ),
    (
        """
@app.task(base=LimitedTaskMixin, semaphore="api", limit=5)
def call(): ...
""",
        "task shop.call: base=LimitedTaskMixin is no task class, only a part of one. Write base=LimitedTask",
    ),
]


@pytest.mark.parametrize(("code", "text"), UNLIMITED)
def test_a_task_that_only_seems_limited(app: Celery, code: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=answer(text)):
        declare(code, app)


def declare(code: str, app: Celery) -> None:
    """Declare tasks, as a module of the user's does, and check them as a worker does that starts."""
    run(code, app)
    app.finalize()
    check_tasks(app.tasks.values(), Settings.from_app(app), prefork=True)


@pytest.mark.parametrize(("code", "text"), UNLIMITED[:3])
def test_no_worker_starts_with_it(app: Celery, code: str, text: str) -> None:
    run(code, app)
    with pytest.raises(ConfigurationError, match=answer(text)):
        app.WorkController(app=app, pool="solo")


def test_a_call_of_a_task_that_forgot_super_is_refused(app: Celery) -> None:
    run(UNLIMITED[2][0], app)
    for call in ("delay", "apply"):
        with pytest.raises(ConfigurationError, match=r"does not call super\(\)"):
            getattr(app.tasks["shop.call"], call)()


def test_no_worker_starts_although_another_reader_swallowed_the_error(app: Celery) -> None:
    """As Django's checks do, which bind the tasks of a worker first."""
    run(UNLIMITED[4][0], app)
    with pytest.raises(ConfigurationError):
        app.finalize()
    assert SemaphoreStep.__name__ in str(app.steps["worker"])
    with pytest.raises(ConfigurationError, match="base=LimitedTaskMixin is no task class"):
        app.WorkController(app=app, pool="solo")


def test_tasks_of_other_libraries_are_let_pass(app: Celery) -> None:
    """Their attribute ``semaphore`` is a thing of their own."""
    code = "@app.task(semaphore=object())\ndef call(): ..."
    declare(code, app)
    app.WorkController(app=app, pool="solo")
    assert not {*app.steps["worker"]} & {*STEPS.values()}


@pytest.mark.parametrize(
    "words", [("worker", "--pool=solo"), ("semaphore", "list"), ("semaphore", "check")]
)
def test_celery_itself_refuses_a_task_that_never_names_the_library(words: tuple[str, ...]) -> None:
    group, *rest = words
    said = Command({"C_FORCE_ROOT": "1"}, group, "tests.ops.limitless", forks=False)(*rest)
    assert said.code == 1
    text = UNLIMITED[0][1].replace("shop.call", "tests.ops.limitless.call_api")
    assert re.search(answer(text), said.out + said.err), said
    assert "ready." not in said.err
