"""Wrong options are refused at start, with the task, the option and the value."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, Task
from celery.worker.request import Request

from celery_semaphore import Limit, LimitedTask, LimitedTaskMixin, SemaphoreError
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.settings import Settings
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.main_process.request import LimitedRequestMixin
from celery_semaphore.worker.task_checks import check_tasks, warnings_of

SETTINGS = Settings("memory://")


def declare(app: Celery, **options: Any) -> Any:
    def body(tenant: str, region: str = "eu", *rest: int) -> None: ...

    task = app.task(**{"base": LimitedTask, "name": "shop.export", "shared": False} | options)(body)
    app.finalize()
    return app.tasks["shop.export"] if task else None


def test_a_wrong_task_stays_wrong(app: Celery) -> None:
    """Whoever bound it first may have swallowed why."""
    with pytest.raises(ConfigurationError):
        declare(app, semaphore="s", limit=-1)
    task = app.tasks["shop.export"]
    assert app.steps["worker"]
    with pytest.raises(ConfigurationError, match="limit=-1"):
        check_tasks(app.tasks.values(), SETTINGS, prefork=True)
    for _ in range(2):
        with pytest.raises(ConfigurationError, match="limit=-1"):
            task.delay("a")


def test_keys_by_position_keyword_and_default(app: Celery) -> None:
    task = declare(app, semaphore="s", limit=2, key="{tenant}/{region}")
    options = task.semaphore_options
    keys = [
        options.claims(*call)[0].key
        for call in [(("a",), {}), ((), {"tenant": "a", "region": "us"})]
    ]
    assert keys == ["a/eu", "a/us"]


def test_callables_get_the_call_or_nothing(app: Celery) -> None:
    task = declare(
        app,
        semaphore="s",
        limit=lambda: 7,
        weight=lambda tenant, **_: len(tenant),
        key=lambda tenant, *_, **__: tenant.upper(),
    )
    (claim,) = task.semaphore_options.claims(("ab",), {})
    assert (claim.limit, claim.weight, claim.key) == (7, 2, "AB")


def test_none_is_no_key(app: Celery) -> None:
    """Nearly always a mistake, and then they all would share one."""
    task = declare(app, semaphore="s", limit=5, key="{region}:{tenant}")
    said = (
        "task shop.export: semaphore 's': key='{region}:{tenant}' needs tenant, which is None in this call;"
        " if all such calls are meant to share one key, write {tenant!s}"
    )
    with pytest.raises(SemaphoreError, match=f"^{re.escape(said)}$"):
        task.semaphore_options.claims((None,), {})


@pytest.mark.parametrize(("tenant", "key"), [(None, "None"), ("None", "None"), ("", ""), (0, "0")])
def test_what_is_said_on_purpose_is_a_key(app: Celery, tenant: object, key: str) -> None:
    task = declare(app, semaphore="s", limit=5, key="{tenant!s}")
    (claim,) = task.semaphore_options.claims((tenant,), {})
    assert claim.key == key


def test_a_call_that_does_not_fit(app: Celery) -> None:
    task = declare(app, semaphore="s", limit=5, key="{tenant}")
    with pytest.raises(SemaphoreError) as raised:
        task.semaphore_options.claims((), {})
    assert str(raised.value) == (
        "task shop.export: key='{tenant}' cannot be made, for the call does not fit the task's"
        " parameters: missing a required argument: 'tenant'"
    )


def test_what_every_call_asks_for_is_made_once(app: Celery) -> None:
    claims = declare(app, semaphore="s", limit=5).semaphore_options.claims
    assert claims(("a",), {}) is claims(("b",), {})
    assert [c.weight for c in claims(("a",), {}, weight=2)] == [2]
    assert [c.key for c in claims(("a",), {}, key="k")] == ["k"]


@pytest.mark.parametrize("option", ["limit", "weight", "key"])
def test_a_function_is_asked_at_each_call(app: Celery, option: str) -> None:
    answers = iter((3, 4))
    options = {"semaphore": "s", "limit": 5} | {option: lambda: next(answers)}
    claims = declare(app, **options).semaphore_options.claims
    found = [getattr(claims(("a",), {})[0], option) for _ in range(2)]
    assert found == ([3, 4] if option != "key" else ["3", "4"])


def test_a_call_that_lacks_one_of_any_arguments(app: Celery) -> None:
    def body(**anything: Any) -> None: ...

    options = {"base": LimitedTask, "semaphore": "s", "limit": 1, "key": "{order[id]}"}
    app.task(**options, name="any", shared=False)(body)
    app.finalize()
    claims = app.tasks["any"].semaphore_options.claims
    for call in ({}, {"order": {"no": 7}}):
        with pytest.raises(SemaphoreError, match=r"task any: .*needs order\[id\], which the call"):
            claims((), call)


def test_of_a_bound_task(app: Celery) -> None:
    @app.task(
        base=LimitedTask,
        bind=True,
        semaphore="s",
        limit=1,
        key="{tenant}",
        name="bound",
        shared=False,
    )
    def body(self: Any, tenant: str) -> None: ...

    assert app.tasks["bound"].semaphore_options.claims(("a",), {})[0].key == "a"


def test_of_a_class(app: Celery) -> None:
    class Export(LimitedTask):
        name, semaphore, limit, key = "class", "s", 1, "{tenant}"

        def run(self, tenant: str) -> None: ...

    app.register_task(Export())
    app.finalize()
    assert app.tasks["class"].semaphore_options.claims(("a",), {})[0].key == "a"


def test_task_annotations_limit_what_is_not_ours() -> None:
    app = Celery("annotated", task_cls="celery_semaphore:LimitedTask", set_as_current=False)
    app.conf.task_annotations = {"theirs": {"semaphore": "crm", "limit": 3}}

    def body() -> None: ...

    app.task(name="theirs", shared=False)(body)
    app.task(name="other", shared=False)(body)
    app.finalize()
    assert app.tasks["theirs"].semaphore_options.limits == (Limit("crm", 3),)
    other = app.tasks["other"]
    assert other.semaphore_options is None
    assert other.Request == Task.Request, "a task without a semaphore is left as it is"
    assert other.before_start.__func__ is Task.before_start


def test_mixin_and_a_request_class_of_their_own(app: Celery) -> None:
    class Theirs(Request):
        pass

    class Base(LimitedTaskMixin, Task):
        abstract = True
        Request = Theirs

    task = declare(app, base=Base, semaphore="s", limit=1)
    assert issubclass(task.Request, LimitedRequestMixin)
    assert issubclass(task.Request, Theirs)


def test_terminate_needs_prefork(app: Celery) -> None:
    declare(app, semaphore="s", limit=1, on_lost="terminate")
    check_tasks(app.tasks.values(), limiter_of(app).settings, prefork=True)
    with pytest.raises(ConfigurationError, match="needs the prefork pool"):
        check_tasks(app.tasks.values(), limiter_of(app).settings, prefork=False)


def test_a_setting_of_another_app_of_the_project() -> None:
    def app(**conf: Any) -> Celery:
        app = Celery("spaced", set_as_current=False)
        conf = {"CELERY_BROKER_URL": "redis://"} | conf
        app.config_from_object(SimpleNamespace(**conf), namespace="CELERY")
        return app

    # A setting of another Django app is none of Celery's, and so none of ours.
    given = app(CELERY_SEMAPHORE_LEASE=5, SEMAPHORE_LEESE=6)
    assert Settings.from_app(given).lease == 5


def test_the_url_comes_from_the_broker_or_the_backend() -> None:
    def url(**conf: Any) -> str:
        app = Celery("where", set_as_current=False)
        app.conf.update(conf)
        return Settings.from_app(app).url

    assert url(broker_url="redis://b/1") == "redis://b/1"
    assert url(broker_url="amqp://b", result_backend="redis://r/2") == "redis://r/2"
    backend = "db+postgresql+psycopg://u@h/d"
    assert url(broker_url="amqp://b", result_backend=backend) == backend
    assert url(broker_url="redis://b/1", semaphore_url="redis://s/3") == "redis://s/3"
    with pytest.raises(ConfigurationError, match="semaphore_url is not set"):
        url(broker_url="amqp://b", result_backend="rpc://")


def test_attributes_that_may_be_the_users_own_are_warned_of(app: Celery) -> None:
    class Base(LimitedTask):
        abstract = True
        on_saturate = "drop"

    own = {"limits": 5, "keys": 1, "height": 3, "weights": 3}
    declare(app, base=Base, semaphore="s", limit=1, key="{tenant}", weight=1, **own)
    texts = sorted(warnings_of(app.tasks.values()))
    assert len(texts) == 5
    assert texts[0].startswith("task shop.export: height=3 is not an option; did you mean weight?")
    assert texts[1].startswith("task shop.export: keys=1 is not an option; did you mean key?")
    assert texts[2].startswith("task shop.export: limits=5 is not an option; did you mean limit?")
    assert texts[3].startswith("task shop.export: on_saturate='drop' is not an option")
    assert texts[4].startswith("task shop.export: weights=3 is not an option; did you mean weight?")


def test_plurals_beside_a_list_of_limits_are_warned_of(app: Celery) -> None:
    declare(app, semaphore=[Limit("s", 1)], limit=None, limits=5, keys=1, weights=2)
    assert len(list(warnings_of(app.tasks.values()))) == 3


def test_tasks_that_disagree_about_a_limit_are_warned_of(app: Celery) -> None:
    def body(tenant: str) -> None: ...

    declared: dict[str, dict[str, Any]] = {
        "a": {"limit": 5},
        "b": {"limit": 3},
        "callable": {"limit": lambda: 7},
        "keyed": {"limit": 1, "key": "{tenant}"},
        "other": {"limit": 4, "semaphore": "other"},
    }
    for name, options in declared.items():
        common = {"base": LimitedTask, "name": name, "semaphore": "api", "shared": False}
        app.task(**common | options)(body)
    app.finalize()
    (text,) = warnings_of(app.tasks.values())
    assert text.startswith(
        "semaphore 'api' is declared with different limits: a limit=5, b limit=3."
    )


def test_tasks_of_one_semaphore_may_wait_in_different_ways() -> None:
    app = Celery("mixed", set_as_current=False)

    def body() -> None: ...

    for policy in ("park", "requeue"):
        declared = {"base": LimitedTask, "name": policy, "semaphore": "api", "limit": 5}
        app.task(**declared, shared=False, on_saturated=policy)(body)
    app.finalize()
    assert list(warnings_of(app.tasks.values())) == []


def test_attributes_that_only_look_like_options_are_let_pass() -> None:
    app = Celery("theirs", task_cls="celery_semaphore:LimitedTask", set_as_current=False)

    def body() -> None: ...

    own = {"limits": 5, "wait_timeouts": 3, "retry_jitter": 1, "queue_key": "k", "max_limit": 7}
    own["keys"] = 1
    app.task(name="unlimited", shared=False, **own)(body)

    class Limited(LimitedTask):
        name, semaphore, limit = "limited", "s", 1
        autoretry_for = (ValueError,)
        time_limit = 5

        def keys(self) -> None: ...

        def run(self) -> None: ...

    app.register_task(Limited())
    app.finalize()
    assert list(warnings_of(app.tasks.values())) == []


def test_a_countdown_never_outlives_a_quarter_of_the_visibility_timeout(app: Celery) -> None:
    app.conf.broker_transport_options = {"visibility_timeout": 60}
    task = declare(app, semaphore="s", limit=1)
    assert task.semaphore_options.policy(Settings.from_app(app)).longest == 15


def test_without_a_visibility_timeout_half_an_hour_counts(app: Celery) -> None:
    """RabbitMQ ends a worker's channel after this time, and its setting cannot be read."""
    settings = Settings.from_app(app)
    assert (settings.longest_delay, settings.longest_keeping) == (450, 900)


class Batches(Task):
    """Handles messages in its own way, as the class of celery-batches does."""

    abstract = True

    def Strategy(self, task: Any, app: Celery, consumer: Any) -> Any:  # noqa: N802 - Celery's name
        return lambda message, body, ack, reject, callbacks, **_: ack(None, None)


class LimitedBatches(LimitedTaskMixin, Batches):
    abstract = True


def test_a_task_with_a_strategy_of_its_own_cannot_be_limited(app: Celery) -> None:
    with pytest.raises(
        ConfigurationError, match=r"Strategy of its own, Batches\.Strategy,"
    ) as found:
        declare(app, base=LimitedBatches, semaphore="s", limit=1)
    assert "task shop.export: semaphore='s' would not limit it" in str(found.value)
    assert "use a Semaphore inside its body" in str(found.value)
    with pytest.raises(ConfigurationError, match="a Strategy of its own"):
        check_tasks(app.tasks.values(), SETTINGS, prefork=True)
    with pytest.raises(ConfigurationError, match="a Strategy of its own"):
        app.tasks["shop.export"].delay("a")


def test_a_strategy_by_name_is_one_too(app: Celery) -> None:
    with pytest.raises(
        ConfigurationError, match=r"a Strategy of its own, .shop\.strategies:batch.,"
    ):
        declare(app, semaphore="s", limit=1, Strategy="shop.strategies:batch")


def test_a_task_with_a_strategy_may_have_our_class(app: Celery) -> None:
    assert declare(app, base=LimitedBatches).semaphore_options is None


# -- which broker keeps permits, if none is named


BOTH = {"broker_read_url": "redis://one/0", "broker_write_url": "redis://two/0"}


@pytest.mark.parametrize(
    "conf", [BOTH, {"broker_url": "redis://one", "broker_write_url": "redis://two"}]
)
def test_two_brokers_are_no_default(app: Celery, conf: dict[str, str]) -> None:
    app.conf.update({"semaphore_url": None, "broker_url": None, "result_backend": None} | conf)
    with pytest.raises(ConfigurationError, match="broker_read_url and broker_write_url differ"):
        Settings.from_app(app)
    app.conf.semaphore_url = "redis://three/0"
    assert Settings.from_app(app).url == "redis://three/0"


def test_one_broker_by_two_settings_is_the_default(app: Celery) -> None:
    app.conf.update(BOTH, semaphore_url=None, broker_write_url=["redis://one/0"])
    assert Settings.from_app(app).url == "redis://one/0"


def test_the_default_is_the_broker_that_celery_uses(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Celery's own variables, which also its option --broker sets, go before what is configured."""
    app.conf.semaphore_url = None
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://four/0")
    assert Settings.from_app(app).url == "redis://four/0"


def test_a_cluster_is_no_broker(app: Celery) -> None:
    app.conf.update(semaphore_url=None, broker_url="redis+cluster://one", result_backend=None)
    with pytest.raises(
        ConfigurationError, match=r"no transport for a Redis Cluster.*Set it to the server"
    ):
        Settings.from_app(app)
    app.conf.update(semaphore_url="redis+cluster://one;two:1", broker_url="amqp://one")
    assert Settings.from_app(app).url == "redis+cluster://one;two:1"


def test_two_brokers_that_keep_no_permits_leave_the_backend(app: Celery) -> None:
    urls = {"broker_read_url": "amqp://one", "broker_write_url": "amqp://two"}
    app.conf.update(urls, semaphore_url=None, result_backend="redis://three/0")
    assert Settings.from_app(app).url == "redis://three/0"
