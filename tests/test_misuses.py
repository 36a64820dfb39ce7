"""What a new user writes wrong, and the answer to each: it names the value, and what to write instead.

A ``…`` of an answer stands for any text.
"""

from __future__ import annotations

import re
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from celery import Celery, Task

import celery_semaphore
from celery_semaphore.errors import ConfigurationError, SemaphoreError
from celery_semaphore.ops.inspector import Inspector
from celery_semaphore.settings import Settings
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.task.steps import STEPS
from celery_semaphore.worker.main_process.bootstep import SemaphoreStep
from celery_semaphore.worker.task_checks import check_tasks
from tests.ops.conftest import Command
from tests.support.servers import ValkeyServer


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
    names["inspector"] = Inspector(MemoryStore(), declared={"api": 5})
    names |= {"app": app, "Task": Task, "django": partial(read_django, app), "__name__": "shop"}
    exec(code, names)  # noqa: S102


def read_django(app: Celery, **settings: Any) -> None:
    """Let the app read these settings of a Django project."""
    settings = {"CELERY_BROKER_URL": "redis://broker", **settings}
    app.config_from_object(SimpleNamespace(**settings), namespace="CELERY")


def answer(text: str) -> str:
    """Return the pattern of an answer."""
    return "(?s)" + ".*".join(map(re.escape, text.split("…")))


# -- tasks that only seem to be limited: no worker starts

UNLIMITED: list[tuple[str, str]] = [
    (
        """
app.conf.task_annotations = {"shop.call": {"semaphore": "crm", "limit": 3}}

@app.task()
def call(): ...
""",
        "task shop.call: semaphore='crm' is set, but the task is not limited…base=LimitedTask",
    ),
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
        "task shop.call: base=LimitedTaskMixin is not a task class, only a part of one. Write base=LimitedTask",
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
    settings = Settings.from_app(app)
    settings.open_store().close()
    check_tasks(app.tasks.values(), settings, prefork=True)


@pytest.mark.parametrize(("code", "text"), UNLIMITED[:4])
def test_no_worker_starts_with_it(app: Celery, code: str, text: str) -> None:
    run(code, app)
    with pytest.raises(ConfigurationError, match=answer(text)):
        app.WorkController(app=app, pool="solo")


def test_a_call_of_a_task_that_forgot_super_is_refused(app: Celery) -> None:
    run(UNLIMITED[3][0], app)
    for call in ("delay", "apply"):
        with pytest.raises(ConfigurationError, match=r"does not call super\(\)"):
            getattr(app.tasks["shop.call"], call)()


def test_no_worker_starts_although_another_reader_swallowed_the_error(app: Celery) -> None:
    """As Django's checks do, which bind the tasks of a worker first."""
    run(UNLIMITED[5][0], app)
    with pytest.raises(ConfigurationError):
        app.finalize()
    assert SemaphoreStep.__name__ in str(app.steps["worker"])
    with pytest.raises(ConfigurationError, match="base=LimitedTaskMixin is not a task class"):
        app.WorkController(app=app, pool="solo")


def test_tasks_of_other_libraries_are_let_pass(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their attribute ``semaphore`` is a thing of their own."""
    # A worker that is made forbids its process to wait for results.
    monkeypatch.setattr("celery._state._task_join_will_block", False)
    code = "@app.task(semaphore=object())\ndef call(): ..."
    declare(code, app)
    app.WorkController(app=app, pool="solo")
    assert not {*app.steps["worker"]} & {*STEPS.values()}


# -- settings that nothing reads, or that cannot hold

SETTINGS: list[tuple[str, str]] = [
    ("app.conf.semaphore_lease = 0", "semaphore_lease=0 must be a number of seconds, 1 or more"),
    ("app.conf.semaphore_lease = 'soon'", "semaphore_lease='soon' must be a number of seconds"),
    ("app.conf.semaphore_timeout = 'inf'", "semaphore_timeout='inf' must be a number of seconds"),
    (
        "app.conf.semaphore_on_saturated = 'pray'",
        "semaphore_on_saturated='pray' is unknown; it must be one of wait, requeue, park, drop, fail",
    ),
    (
        "app.conf.semaphore_on_lost = 'die'",
        "semaphore_on_lost='die' is unknown; it must be one of warn, terminate",
    ),
    ("app.conf.broker_url = 'amqp://b'", "semaphore_url is not set…for instance redis://localhost"),
    (
        "app.conf.semaphore_url = 'reddis://b'",
        "semaphore_url has the scheme 'reddis'; known schemes:",
    ),
    ("app.conf.SEMAPHORE_URL = 'redis://x'", "SEMAPHORE_URL is not read: write semaphore_url"),
    (
        "app.conf.semphore_url = 'redis://x'",
        "unknown setting semphore_url; did you mean semaphore_url",
    ),
    (
        "app.conf.semaphore_leese = 5",
        "unknown setting semaphore_leese; did you mean semaphore_lease",
    ),
    (
        "app.conf.SEMAPHORE_LEESE = 5",
        "unknown setting SEMAPHORE_LEESE; did you mean semaphore_lease",
    ),
    (
        "app.conf.CELERY_SEMAPHORE_LEASE = 5",
        "CELERY_SEMAPHORE_LEASE is not read: write semaphore_lease…namespace='CELERY'",
    ),
    (
        "django(CELERY_SEMPHORE_URL='redis://x')",
        "unknown setting CELERY_SEMPHORE_URL; did you mean CELERY_SEMAPHORE_URL",
    ),
    (
        "django(CELERY_SEMAPHORE_LEESE=5)",
        "unknown setting CELERY_SEMAPHORE_LEESE; did you mean CELERY_SEMAPHORE_LEASE",
    ),
    ("django(SEMAPHORE_URL='redis://x')", "SEMAPHORE_URL is not read: write CELERY_SEMAPHORE_URL"),
    (
        "django(); app.conf.SEMAPHORE_LEASE = 5",
        "SEMAPHORE_LEASE is not read: write CELERY_SEMAPHORE_LEASE",
    ),
    (
        "django(); app.conf.semaphore_leese = 5",
        "unknown setting semaphore_leese; did you mean semaphore_lease",
    ),
    (
        "app.conf.semaphore_lease = 0.5",
        "semaphore_lease=0.5 must be a number of seconds, 1 or more.",
    ),
]


@pytest.mark.parametrize(("code", "text"), SETTINGS)
def test_a_wrong_setting(app: Celery, code: str, text: str) -> None:
    app.conf.semaphore_url = None
    app.conf.broker_url = "redis://broker"  # which would keep the permits without a word

    with pytest.raises(ConfigurationError, match=answer(text)):
        declare(
            f'{code}\n@app.task(base=LimitedTask, semaphore="api", limit=5)\ndef call(): ...', app
        )


@pytest.mark.parametrize(
    "code",
    [
        "app.conf.update(SEMAPHORE_URL='a', semaphore_url='redis://x')",  # a name of the module's own
        "django(SEMAPHORE_LEESE=5)",  # of another app of the project
        "django(SEMAPHORE_API_KEY='a')",
        "app.conf.semaphores = 5",
        "app.conf.worker_semaphore_url = 'a'",
    ],
)
def test_a_setting_of_something_else(app: Celery, code: str) -> None:
    run(code, app)
    Settings.from_app(app)


@pytest.mark.parametrize(
    "words", [("worker", "--pool=solo"), ("semaphore", "list"), ("semaphore", "check")]
)
def test_celery_itself_refuses_a_task_that_never_names_the_library(
    valkey: ValkeyServer, words: tuple[str, ...]
) -> None:
    group, *rest = words
    env = {"C_FORCE_ROOT": "1", "STORE": valkey.url}
    said = Command(env, group, "tests.ops.limitless", forks=False)(*rest)
    assert said.code == 1
    text = UNLIMITED[1][1].replace("shop.call", "tests.ops.limitless.call_api")
    assert re.search(answer(text), said.out + said.err), said
    assert "ready." not in said.err


@pytest.mark.parametrize(
    "words", [("list",), ("show", "api"), ("pause", "api"), ("metrics", "--once")]
)
def test_no_command_looks_into_its_own_memory(words: tuple[str, ...]) -> None:
    said = Command({"STORE": "memory://"}, app="tests.ops.limitless")(*words)
    assert said.code == 1
    assert "semaphore_url='memory://' keeps permits in the memory of each process" in said.err
    assert "Set it to a server, such as redis://" in said.err


def test_no_worker_beside_another_one_keeps_permits_in_memory(app: Celery) -> None:
    limited = '@app.task(base=LimitedTask, semaphore="api", limit=5)\ndef call(): ...'
    run(limited, app)
    with pytest.raises(ConfigurationError, match=r"memory://.*this pool has several.*Use redis"):
        app.WorkController(app=app, pool="prefork")
    app.conf.broker_url = "redis://broker"
    text = answer(
        "'memory://' serves one process only, and a@x, b@y of the same broker…Use redis://"
    )
    others = mock.patch.object(app.control, "ping", return_value=[{"b@y": {}}, {"a@x": {}}])
    with others, pytest.raises(ConfigurationError, match=text):
        app.WorkController(app=app, pool="threads")


# -- options of a task

TASK = "@app.task(base=LimitedTask, "
BODY = 'def export(tenant, region="eu"): ...'

OPTIONS: list[tuple[str, str]] = [
    ('semaphore="", limit=5', "semaphore=''"),
    ("semaphore=7, limit=5", "semaphore=7"),
    ('semaphore="s"', "needs a limit"),
    ('semaphore="s", limits=2', "limits=2 is not an option; did you mean limit"),
    (
        'semaphore="s", limit=5, keys="{tenant}"',
        "keys='{tenant}' is not an option; did you mean key",
    ),
    ('semaphore="s", limit=5, weights=3', "weights=3 is not an option; did you mean weight"),
    ('semaphore="s", limit=-1', "limit=-1"),
    ('semaphore="s", limit=1.5', "limit=1.5"),
    ('semaphore="s", limit=True', "limit=True"),
    ('semaphore="s", limit="5"', "limit='5'"),
    (
        'semaphore="s", limit=2**40',
        "limit=1099511627776 must be a whole number from 0 to 2147483647",
    ),
    ('semaphore="s", limit=2**31 - 1, weight=2**31', "weight=2147483648 must"),
    ('semaphore=[Limit("s", 2**40)]', "limit=1099511627776 must"),
    ('semaphore="s", limit=5, weight=0', "weight=0"),
    ('semaphore="s", limit=5, weight=6', "weight=6 is above limit=5"),
    ('semaphore="s", limit=5, key="{tenat}"', "names tenat"),
    ('semaphore="s", limit=5, key="tenant"', "key='tenant'"),
    ('semaphore="s", limit=5, key="{"', "key='{'"),
    ('semaphore="s", limit=5, key=7', "key=7"),
    ('semaphore="s", limit=5, on_saturated="pray"', "on_saturated='pray'"),
    ('semaphore="s", limit=5, on_lost="die"', "on_lost='die'"),
    ('semaphore="s", limit=5, wait_timeout=-1', "wait_timeout=-1"),
    ('semaphore="s", limit=5, wait_timeout="1"', "wait_timeout='1'"),
    ('semaphore="s", limit=5, requeue_delay=0', "requeue_delay=0"),
    ('semaphore="s", limit=5, requeue_max_delay=True', "requeue_max_delay=True"),
    ('semaphore=[Limit("a", 1)], limit=5', "into each Limit"),
    ('semaphore=Limit("a", 1)', "must be in a list, as in semaphore="),
    ("semaphore=[]", "semaphore=[]"),
    ('semaphore=["a"]', "semaphore=['a']"),
    ('semaphore=[Limit("a", 1), Limit("a", 2)]', "twice: a, a"),
    ('semaphore=[Limit(f"{n}", 1) for n in range(9)]', "lists 9 limits"),
    ("limit=5", "limit=5 does nothing"),
    (
        'semaphore="s", limit=5, on_saturate="drop"',
        "on_saturate='drop' is not an option; did you mean on_saturated?",
    ),
    (
        'semaphore="s", limit=5, wait_timout=3',
        "wait_timout=3 is not an option; did you mean wait_timeout?",
    ),
    ('limit=5, semaphor="api"', "semaphor='api' is not an option; did you mean semaphore?"),
    (
        'semaphore="s", limit=5, semaphore_limit=3',
        "semaphore_limit=3 is not an option; did you mean limit?",
    ),
    (
        "semaphore='s', limit=lambda tenant, region, day: 5",
        "limit=shop.<lambda> takes (tenant, region, day), and no call of the task fits that",
    ),
    (
        "semaphore='s', limit=5, key=lambda *, order: order",
        "key=shop.<lambda> takes (*, order), and no call of the task fits that",
    ),
    (
        "semaphore='s', limit=5, weight=lambda a, b, c: 1",
        "it gets the task's own arguments, (tenant, region='eu'), or none if it takes none",
    ),
    (
        "semaphore='s', limit=dict",
        "limit=builtins.dict does not reveal its parameters: wrap it in a function.",
    ),
]


@pytest.mark.parametrize(("code", "text"), OPTIONS)
def test_a_wrong_option(app: Celery, code: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=answer(text)) as raised:
        declare(f"{TASK}{code})\n{BODY}", app)
    assert str(raised.value).startswith("task shop.export: ")


CALLS: list[tuple[str, str]] = [
    ('semaphore="s", limit=5, key=lambda tenant: None', "shop.<lambda> returned None"),
    ('semaphore="s", limit=5, key=lambda tenant: 1 // 0', "shop.<lambda> raised ZeroDivisionError"),
    (
        'semaphore="s", limit=5, key="{tenant[x]}"',
        "key='{tenant[x]}' needs tenant[x], which the call lacks (TypeError)",
    ),
    (
        'semaphore="s", limit=5, key="{tenant.id}"',
        "needs tenant.id, which the call lacks (AttributeError)",
    ),
    (
        'semaphore="s", limit=5, key="{region}{tenant[9]}"',
        "needs tenant[9], which the call lacks (IndexError)",
    ),
    ('semaphore="s", limit=5, key="{tenant:d}"', "key='{tenant:d}' raised ValueError"),
    ('semaphore="s", limit=lambda: "many"', "limit='many'"),
    ('semaphore="s", limit=lambda: 1 // 0', "limit= raised ZeroDivisionError"),
    (
        'semaphore="s", limit=lambda: 2**40',
        "limit=1099511627776 must be a whole number from 0 to 2147483647",
    ),
    ('semaphore="s", limit=2**31 - 1, weight=lambda tenant: 2**31', "weight=2147483648 must"),
    ('semaphore="s", limit=5, weight=lambda tenant: 0', "weight=0"),
    ('semaphore="s", limit=5, weight=lambda tenant: 6', "above limit=5"),
]


@pytest.mark.parametrize(("code", "text"), CALLS)
def test_a_call_that_gets_no_claim(app: Celery, code: str, text: str) -> None:
    """It fails with the reason, and without its arguments."""
    declare(f"{TASK}{code})\n{BODY}", app)
    with pytest.raises(SemaphoreError, match=answer(text)) as raised:
        app.tasks["shop.export"].semaphore_options.claims(("secret",), {})
    assert str(raised.value).startswith("task shop.export: semaphore 's': ")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "code",
    [
        "limit=lambda: 5",
        "limit=lambda order: 5",
        "limit=lambda *_, **__: 5",
        "limit=lambda order, day: 5",
        "limit=lambda order, *, day: 5",
        "limit=lambda day, order: 5",
        "limit=5, key=lambda *, order: order",
    ],
)
def test_a_callable_that_some_call_fits(app: Celery, code: str) -> None:
    declare(
        f'@app.task(base=LimitedTask, semaphore="api", {code})\ndef call(order, day=1): ...', app
    )


# -- code outside tasks, and calls

OUTSIDE: list[tuple[str, str]] = [
    (
        "Semaphore('export', limit=2, key='{tenant_id}', url='memory://')",
        "key='{tenant_id}' would be used literally…Give the key itself, as in key=str(tenant_id)",
    ),
    (
        "Semaphore('api', 5, url='memory://', lease=0.5)",
        "lease=0.5 must be a number of seconds, 1 or more",
    ),
    (
        "limited.apply_async(semaphore_key='{tenant_id}')",
        "task shop.limited: semaphore_key='{tenant_id}' would be used literally. Give the key itself",
    ),
    (
        "import asyncio\nasync def use():\n    async with api: ...\nasyncio.run(use())",
        "semaphore 'api': waiting here stops the asyncio loop…Use AsyncSemaphore, with the same arguments…",
    ),
    (
        "@api\nasync def use(): ...",
        "not async, not <function use…: AsyncSemaphore decorates this one",
    ),
    (
        "@api\n@staticmethod\nasync def use(): ...",
        "not async, not <staticmethod(<function use…: AsyncSemaphore decorates this one",
    ),
    (
        "class Use:\n    async def __call__(self): ...\napi(Use())",
        "not async, not <…Use object…: AsyncSemaphore decorates this one",
    ),
    (
        "from unittest.mock import AsyncMock\napi(AsyncMock())",
        "not async, not <AsyncMock…: AsyncSemaphore decorates this one",
    ),
    (
        "import functools\ndef use(n):\n    yield\napi(functools.partial(use, 1))",
        "no generators, not functools.partial(…`with semaphore:` in its body",
    ),
    (
        "@api\ndef use():\n    yield",
        "no generators, not <function use…`with semaphore:` in its body",
    ),
    ("api.release(None)", "release(None): give it the permit that acquire() returned."),
    ("api.extend('api')", "extend('api'): give it the permit that acquire() returned."),
    ("Semaphore('api', 1.5, url='memory://')", "limit=1.5 must be a whole number from 0 to"),
    ("Semaphore('api', True, url='memory://')", "limit=True must be a whole number"),
    ("Semaphore('api', -1, url='memory://')", "limit=-1 must be a whole number"),
    ("Semaphore('api', '5', url='memory://')", "limit='5' must be a whole number"),
    (
        "Semaphore('api', 2**31, url='memory://')",
        "limit=2147483648 must be a whole number from 0 to 2147483647",
    ),
    ("Semaphore('api', weight=None, url='memory://')", "weight=None must be a whole number from 1"),
    ("Semaphore('api', 2**70, weight=2**64, url='memory://')", "from 0 to 2147483647"),
    ("Semaphore('api', 2**31 - 1, weight=2**31, url='memory://')", "weight=2147483648 must"),
    ("Semaphore('api', 5, weight=0, url='memory://')", "weight=0 must be a whole number from 1"),
    (
        "Semaphore('api', 5, weight=6, url='memory://')",
        "weight=6 is above limit=5: there could never be a permit",
    ),
    ("Semaphore('', 5, url='memory://')", "name='' must be a semaphore's name"),
    ("Semaphore(7, 5, url='memory://')", "name=7 must be a semaphore's name"),
    ("Semaphore('api', 5, key=7, url='memory://')", "key=7 must be a string, or None"),
    ("Semaphore('api', 5, timeout=-1, url='memory://')", "timeout=-1 must be a number of seconds"),
    ("Semaphore('api', 5, timeout='5', url='memory://')", "timeout='5' must be a number"),
    ("Semaphore('api', 5, timeout=float('nan'), url='memory://')", "timeout=nan must be"),
    ("Semaphore('api', 5, lease='x', url='memory://')", "lease='x' must be a number of seconds"),
    ("Semaphore('api', 5, lease=0, url='memory://')", "lease=0 must be a number of seconds"),
    ("Semaphore('api', 5, lease=float('nan'), url='memory://')", "lease=nan must be a number"),
    ("Semaphore('api', 5)", "Semaphore needs one of app=, url= and store="),
    (
        "Semaphore('api', 5, app=app, url='memory://')",
        "Semaphore needs one of app=, url= and store=",
    ),
    ("Semaphore('api', 5, app='shop')", "app='shop' must be a Celery app"),
    (
        "Semaphore('api', 5, app=app, lease=9)",
        "prefix= and lease= are for url=: with app=, its settings",
    ),
    (
        "Semaphore('api', 5, url='mongo://x')",
        "semaphore_url has the scheme 'mongo'; known schemes:",
    ),
    ("Semaphore('api', 5, url='redis://x/y')", "redis://x/y"),
    ("api('no function')", "no generators, not 'no function'"),
    (
        "@api\nasync def use():\n    yield",
        "not async, not <function use…: AsyncSemaphore decorates",
    ),
    (
        "limited.apply_async(semaphore_keyy='x')",
        "task shop.limited: semaphore_keyy= is not an option of a call; did you mean semaphore_key=",
    ),
    (
        "limited.apply(sempahore_key='x')",
        "sempahore_key= is not an option…did you mean semaphore_key=",
    ),
    ("limited.s().set(semaphore='x').apply_async()", "semaphore= is not an option of a call"),
    ("limited.apply_async(semaphore_key=7)", "task shop.limited: semaphore_key=7 must be a string"),
    (
        "limited.apply_async(semaphore_weight=0)",
        "semaphore_weight=0 must be a whole number, 1 or more",
    ),
    ("inspector.take_away('api', None)", "holder=None must be a string: the id of a task"),
    (
        "inspector.take_away(None, '7')",
        "resource=None must be a string: Inspector.find() returns it.",
    ),
    ("inspector.resource(None)", "resource=None must be a string: find() returns it."),
    ("inspector.find(None)", "semaphore=None must be a string"),
    ("inspector.find('api', 7)", "key=7 must be a string: a task's template makes it."),
    (
        "inspector.find('apii')",
        "no semaphore 'apii' is in use, limited, or declared…did you mean 'api'",
    ),
    ("inspector.promote('api', '7c1e')", "task_ids='7c1e' must be a list of ids."),
    ("inspector.drop('api', '7c1e')", "task_ids='7c1e' must be a list of ids."),
]


@pytest.mark.parametrize(("code", "text"), OUTSIDE)
def test_a_wrong_call(app: Celery, code: str, text: str) -> None:
    task = '@app.task(base=LimitedTask, semaphore="api", limit=5)\ndef limited(): ...'
    api = "api = Semaphore('api', 5, url='memory://')"
    with pytest.raises(SemaphoreError, match=answer(text)):
        run(f"{task}\n{api}\n{code}", app)


def test_a_text_with_braces_may_be_a_key(app: Celery) -> None:
    run("Semaphore('api', 5, url='memory://', key='{\"a\": 1}')", app)


# -- commands

COMMANDS: list[tuple[str, int, str]] = [
    ("show aip", 1, "no semaphore 'aip' is in use, limited, or declared…did you mean 'api'?"),
    ("limit ap 3", 1, "no semaphore 'ap' is in use…did you mean 'api'?"),
    ("limit ap --clear --force", 1, "no semaphore 'ap' is in use…did you mean 'api'?"),
    ("pause ap", 1, "no semaphore 'ap' is in use…did you mean 'api'?"),
    ("promote ap x", 1, "no semaphore 'ap' is in use…did you mean 'api'?"),
    ("drop ap x -f", 1, "no semaphore 'ap' is in use…did you mean 'api'?"),
    ("limit api", 2, "give a LIMIT or --clear, and not both."),
    ("limit api 2147483648", 2, "2147483648 is not in the range 0<=x<=2147483647"),
    ("limit api -1", 2, "-1"),
    ("list --sort age", 2, "'age' is not one of 'name', 'oldest'"),
    (
        "limit scriptonly 3",
        1,
        "no semaphore 'scriptonly'…To set its limit before it is used, add --force.",
    ),
    ("pause api --for 20", 2, "a number with s, m, h or d behind it, such as 10m, not '20'."),
    ("pause api --for 0s", 2, "more than 0s and at most 366d, such as 10m, not '0s'"),
    ("pause api --for 99999999d", 2, "at most 366d…without a length it lasts until it is resumed."),
    ("lease 1w", 2, "SECONDS must be a number above 0, such as 60, 60s or 2m."),
    (
        "show tenant --key acne -t 0",
        3,
        "tenant at key acne: no permits in use, nothing waiting, no limit in",
    ),
    ("take-away api 7c1e -f", 1, "semaphore 'api': 7c1e has no permit."),
]


@pytest.mark.parametrize(("words", "code", "text"), COMMANDS)
def test_a_wrong_command(valkey: ValkeyServer, words: str, code: int, text: str) -> None:
    env = {"BROKER": valkey.url, "BACKEND": valkey.url, "STORE": valkey.url, "CONF": "{}"}
    said = Command(env)(*words.split())
    assert (said.code, said.out) == (code, "")
    assert re.search(answer(text), said.err), said
