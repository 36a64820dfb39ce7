"""The app under test. What differs between tests comes by the environment."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

from celery import Celery, Task
from celery.exceptions import Ignore, Reject, SoftTimeLimitExceeded
from kombu import Exchange, Queue
from kombu.common import Broadcast

from celery_semaphore import Limit, LimitedTask
from tests.support.counter import Counter
from tests.worker import faults, interrupted

app = Celery("tests", broker=os.environ["BROKER"], backend=os.environ.get("BACKEND"))
app.conf.update(
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    semaphore_url=os.environ.get("STORE"),
    semaphore_lease=float(os.environ.get("LEASE", "3")),
    **json.loads(os.environ.get("CONF", "{}")),
)
if "QUEUES" in os.environ:
    app.conf.task_queues = [
        Broadcast(name)
        if kind == "broadcast"
        else Queue(name, Exchange(exchange, kind), routing_key=key, queue_arguments=arguments)
        for name, exchange, kind, key, arguments in json.loads(os.environ["QUEUES"])
    ]
counter = Counter(os.environ.get("COUNTER_ADDR", ""))


class Failed(Exception):
    """What a task that fails raises."""


def ends(self: LimitedTask, how: str, resource: str) -> str:
    """A body that ends in the way asked for, the first time it runs; the second time it returns."""
    with counter.inside(resource, self.request.id) as now:
        if self.request.retries or counter.stats(resource)["tasks"][self.request.id]["entries"] > 1:
            return "again"
        return WAYS[how](self) or f"{now} inside"


def _retry(self: LimitedTask) -> None:
    raise self.retry(countdown=0)


def _ignore(self: LimitedTask) -> None:
    raise Ignore


def _reject(self: LimitedTask) -> None:
    raise Reject("no", requeue=False)


def _requeue(self: LimitedTask) -> None:
    time.sleep(1)
    raise Reject("not now", requeue=True)


def _raise(self: LimitedTask) -> None:
    raise Failed


def _sleep(self: LimitedTask) -> None:
    time.sleep(60)


def _soft(self: LimitedTask) -> str:
    try:
        time.sleep(60)
    except SoftTimeLimitExceeded:
        return "soft"
    return "never"


WAYS: dict[str, Any] = {
    "success": lambda self: None,
    "failure": _raise,
    "retry": _retry,
    "ignore": _ignore,
    "reject": _reject,
    "requeue": _requeue,
    "soft limit": _sleep,
    "soft limit, caught": _soft,
    "hard limit": _sleep,
    "sleep": _sleep,
    "nap": lambda self: time.sleep(1.0),
    "exit": lambda self: sys.exit(3),
    "kill": lambda self: os.kill(os.getpid(), signal.SIGKILL),
    "_exit": lambda self: os._exit(1),
}

ONE: dict[str, Any] = {"base": LimitedTask, "bind": True, "semaphore": "one", "limit": 1}
early = app.task(**ONE, name="early")(ends)
late = app.task(**ONE, name="late", acks_late=True)(ends)
late_lost = app.task(**ONE, name="late_lost", acks_late=True, reject_on_worker_lost=True)(ends)


@app.task(name="call", base=LimitedTask, bind=True, semaphore="api", limit=5)
def call(self: LimitedTask, seconds: float | None = 0.05, resource: str = "api") -> str:
    with counter.inside(resource, self.request.id):
        counter.remain(resource, seconds)
    assert self.permit is not None
    return self.permit.holder


@app.task(
    name="call_late",
    base=LimitedTask,
    bind=True,
    semaphore="api",
    limit=5,
    acks_late=True,
    reject_on_worker_lost=True,
)
def call_late(self: LimitedTask, seconds: float | None = 0.05, resource: str = "api") -> str:
    with counter.inside(resource, self.request.id):
        counter.remain(resource, seconds)
    assert self.permit is not None
    return self.permit.holder


def _resource(seconds: float | None, resource: str) -> str:
    return resource


@app.task(name="keyed", base=LimitedTask, bind=True, semaphore="keyed", limit=1, key=_resource)
def keyed(self: LimitedTask, seconds: float | None, resource: str) -> None:
    """Like ``hold``, but a function makes its key."""
    with counter.inside(resource, self.request.id):
        counter.remain(resource, seconds)


@app.task(name="export", base=LimitedTask, bind=True, semaphore="tenant", limit=2, key="{tenant}")
def export(self: LimitedTask, tenant: object, seconds: float = 0.05) -> None:
    with counter.inside(f"tenant {tenant}", self.request.id):
        time.sleep(seconds)


@app.task(
    name="both",
    base=LimitedTask,
    bind=True,
    semaphore=[Limit("total", 3), Limit("each", 1, key="{tenant}")],
)
def both(self: LimitedTask, tenant: object, seconds: float = 0.05) -> None:
    with (
        counter.inside("total", self.request.id),
        counter.inside(f"each {tenant}", self.request.id),
    ):
        time.sleep(seconds)


@app.task(name="free")
def free(seconds: float = 0.0) -> float:
    """A task without a limit; answers when it ran."""
    time.sleep(seconds)
    return time.time()


@app.task(name="stay", bind=True)
def stay(self: Task, seconds: float | None, resource: str) -> None:
    """A task without a limit that keeps its process."""
    with counter.inside(resource, self.request.id):
        counter.remain(resource, seconds)


@app.task(
    name="dropped", base=LimitedTask, bind=True, semaphore="one", limit=1, on_saturated="drop"
)
def dropped(self: LimitedTask, resource: str) -> None:
    with counter.inside(resource, self.request.id):
        time.sleep(0.2)


@app.task(
    name="failing", base=LimitedTask, bind=True, semaphore="one", limit=1, on_saturated="fail"
)
def failing(self: LimitedTask, resource: str) -> None:
    with counter.inside(resource, self.request.id):
        time.sleep(0.2)


@app.task(name="impatient", base=LimitedTask, bind=True, semaphore="one", limit=1, wait_timeout=1.5)
def impatient(self: LimitedTask, resource: str) -> None:
    with counter.inside(resource, self.request.id):
        time.sleep(0.2)


@app.task(name="hold", base=LimitedTask, bind=True, semaphore="one", limit=1)
def hold(self: LimitedTask, seconds: float | None, resource: str = "one") -> None:
    """Keeps the only permit, so that others wait."""
    with counter.inside(resource, self.request.id):
        counter.remain(resource, seconds)


@app.task(**ONE, name="hold_late", acks_late=True)
def hold_late(self: LimitedTask, seconds: float | None, resource: str = "one") -> None:
    with counter.inside(resource, self.request.id):
        counter.remain(resource, seconds)


@app.task(**ONE, name="rejects", acks_late=True)
def rejects(self: LimitedTask, resource: str) -> None:
    """Goes back to its queue for ever."""
    with counter.inside(resource, self.request.id):
        time.sleep(0.05)
    raise Reject("again", requeue=True)


@app.task(**ONE, name="rejects_once", acks_late=True, wait_timeout=1.5)
def rejects_once(self: LimitedTask, seconds: float, resource: str) -> None:
    """Runs for so long the first time, and goes back to its queue."""
    with counter.inside(resource, self.request.id):
        if counter.stats(resource)["tasks"][self.request.id]["entries"] > 1:
            return
        time.sleep(seconds)
    raise Reject("again", requeue=True)


@app.task(name="look", base=LimitedTask, bind=True, semaphore="one", limit=1)
def look(self: LimitedTask, *args: object, **kwargs: object) -> dict[str, Any]:
    """What a task can see of its own message."""
    request = self.request
    seen = {name: getattr(request, name, None) for name in SEEN}
    seen["headers"] = {k: v for k, v in (request.headers or {}).items() if k in ("mine", "stamp")}
    return {
        **seen,
        "args": args,
        "kwargs": kwargs,
        "ours": sorted(k for k in request.__dict__ if "sema" in k),
    }


SEEN = [
    *[
        "id",
        "root_id",
        "parent_id",
        "group",
        "group_index",
        "chord",
        "chain",
        "callbacks",
        "errbacks",
    ],
    *["retries", "expires", "timelimit", "shadow", "reply_to", "correlation_id", "origin"],
    *["ignore_result", "stamps", "stamped_headers", "delivery_info", "argsrepr", "kwargsrepr"],
    *["replaced_task_nesting", "properties"],
]


@app.task(name="retries", base=LimitedTask, bind=True, semaphore="one", limit=1, max_retries=1)
def retries(self: LimitedTask) -> dict[str, Any]:
    """Uses its only retry, then tells how it came."""
    if not self.request.retries:
        raise self.retry(countdown=0)
    return {"delivery_info": self.request.delivery_info, "retries": self.request.retries}


@app.task(name="page", base=LimitedTask, bind=True, semaphore="pages", limit=20, max_retries=1)
def page(self: LimitedTask, how: str) -> list[int]:
    """Replaces itself, by way of queues that the test looks into; then tells how it came."""
    here = [self.request.retries, self.request.replaced_task_nesting]
    with counter.inside(how, self.request.id):
        if here == {"after a retry": [0, 0], "by a task that retries": [0, 1]}.get(how):
            raise self.retry(countdown=0)
        if how == "last" or here[1] == (2 if how == "again" else 1):
            return here
        queue = "middle" if how == "again" and here[1] == 0 else "other"
        following = page.si(how).set(queue=queue)
        return self.replace(free.si() | following if how == "by a chain" else following)


class Careless(LimitedTask):
    """A subclass that forgets ``super()``."""

    abstract = True

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        self.app.log.get_default_logger().info("before_start of %s", task_id)


@app.task(name="careless", base=Careless, bind=True, semaphore="careless", limit=1)
def careless(self: LimitedTask, resource: str) -> None:
    with counter.inside(resource, self.request.id):
        time.sleep(0.1)


@app.task(name="add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="limited_add", base=LimitedTask, semaphore="one", limit=1)
def limited_add(x: int, y: int) -> int:
    return x + y


@app.task(name="limited_sum", base=LimitedTask, semaphore="one", limit=1)
def limited_sum(numbers: list[int]) -> int:
    return sum(numbers)


@app.task(name="fails_inside", base=LimitedTask, semaphore="outer", limit=1)
def fails_inside() -> None:
    """Has a permit, and raises what an attempt without one would fail with."""
    failing.apply(("never",), throw=True)


@app.task(name="nested", base=LimitedTask, bind=True, semaphore="one", limit=1)
def nested(self: LimitedTask) -> list[Any]:
    """Runs another task of its own semaphore where it stands."""
    with counter.inside("nested", self.request.id):
        inner = limited_add.apply((1, 2))
        counter.remain("nested", 0.05)
    return [inner.state, inner.result]


def soak(self: LimitedTask, resource: str) -> None:
    with counter.inside(resource, self.request.id):
        time.sleep(0.02)


if "KNOWS_MORE" in os.environ:
    app.task(base=LimitedTask, bind=True, name="unknown", semaphore="one", limit=1)(hold.run)


for acks in ("early", "late"):
    LATE = {"acks_late": True, "reject_on_worker_lost": True} if acks == "late" else {}
    SOAK: dict[str, Any] = {"base": LimitedTask, "bind": True, "shared": False, **LATE}
    app.task(**SOAK, name=f"soak one {acks}", semaphore="soak one", limit=1)(soak)
    app.task(**SOAK, name=f"soak five {acks}", semaphore="soak five", limit=5)(soak)
    app.task(**SOAK, name=f"soak each {acks}", semaphore="soak each", limit=2, key="{resource}")(
        soak
    )


if "FLUSH_AFTER_SETUP" in os.environ:
    faults.flush_after_setup(os.environ["FLUSH_AFTER_SETUP"])
if "LOG_NOTED" in os.environ:
    faults.log_noted()
    faults.log_reading()
if "LOG_PREFETCH" in os.environ:
    faults.log_prefetch()
if "REST_LONG" in os.environ:
    faults.rest_long()
if "SWEEP_ONCE" in os.environ:
    faults.sweep_once()
if "ANSWER_NO_QUESTION" in os.environ:
    faults.answer_no_question(os.environ["ANSWER_NO_QUESTION"])
if "LOG_MESSAGES" in os.environ:
    faults.log_messages(os.environ["LOG_MESSAGES"])
if "LOOK_FOR_DEAD" in os.environ:
    faults.look_for_dead(float(os.environ["LOOK_FOR_DEAD"]))
if "LOOK_OFTEN" in os.environ:
    faults.look_often(float(os.environ["LOOK_OFTEN"]))
if "LOG_LOOKS" in os.environ:
    faults.log_looks(os.environ["LOG_LOOKS"])
if "PUBLISH_BY" in os.environ:
    faults.publish_by(os.environ["PUBLISH_BY"])
if "FORGETFUL" in os.environ:
    faults.log_forgotten()
if "FAULT" in os.environ:
    faults.install(os.environ["FAULT"], os.environ["FAULT_FILE"])
if "SOFT_LIMIT_INSIDE" in os.environ:
    interrupted.strike_before_the_run()
if "QUIT_INSIDE" in os.environ:
    interrupted.install(os.environ["QUIT_INSIDE"], int(os.environ["QUIT_PROCESSES"]))
