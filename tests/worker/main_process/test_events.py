"""What monitors see of limited tasks: Celery's own State, fed by real workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import celery
import pytest
from celery import Celery
from celery.events.state import State
from kombu.utils.imports import symbol_by_name

from celery_semaphore import LimitedTask
from celery_semaphore.core.claim import Claim
from celery_semaphore.worker.limiter import limiter_of
from tests.support.process import wait_until
from tests.support.variants import also
from tests.support.worker import CeleryWorker

from ..brokers import EITHER
from ..conftest import Site
from ..messages.test_parking import PARK, done
from ..permits.test_interrupted import quits_inside

Event = dict[str, Any]


class Monitor:
    """As Flower: a State, and beside it each event, and how each message came."""

    def __init__(self) -> None:
        self.state, self.events, self.routes = State(), list[Event](), list[str]()
        self._lock = (
            threading.Lock()
        )  # a State is for one thread: its dicts lose a key while they move it

    def came(self, _body: Any, message: Any) -> None:
        self.routes.append(message.delivery_info["routing_key"])

    def heard(self, event: Event) -> None:
        with self._lock:
            self.state.event(event)
        self.events.append(event)  # last: what the test has seen is in the state

    def of(self, result: Any) -> list[str]:
        """The types of this task's events, in the order in which they came."""
        return [each["type"] for each in self.events if each.get("uuid") == result.id]

    def one(self, result: Any, kind: str) -> Event:
        (event,) = [e for e in self.events if e.get("uuid") == result.id and e["type"] == kind]
        return event

    def shown(self, result: Any) -> str:
        with self._lock:
            return str(self.state.tasks[result.id].state)


def consumers(receiver: Any, monitor: Monitor, consumer: Any, _channel: Any) -> list[Any]:
    """The receiver's own, and the monitor beside it."""
    called = [monitor.came, receiver._receive]
    options = {"no_ack": True, "accept": receiver.accept}
    return [consumer(queues=[receiver.queue], callbacks=called, **options)]


@contextmanager
def monitoring(site: Site) -> Iterator[Monitor]:
    """Hear what the workers say that are started within."""
    monitor = Monitor()
    with site.client.connection_for_read() as connection:
        receiver = site.client.events.Receiver(connection, handlers={"*": monitor.heard})
        receiver.get_consumers = partial(consumers, receiver, monitor)
        thread = threading.Thread(target=receiver.capture, kwargs={"wakeup": False}, daemon=True)
        thread.start()
        try:
            yield monitor
        finally:
            receiver.should_stop = True
            thread.join(10)


@pytest.fixture
def monitor(site: Site) -> Iterator[Monitor]:
    with monitoring(site) as monitor:
        yield monitor


# Celery buffers events where the worker has a hub. Threads of the threads pool send, not the event loop.
ROUTES = {
    "prefork": "semaphore.multi",
    "solo": "semaphore.multi",
    "threads": "semaphore.saturated",
    "gevent": "semaphore.saturated",
    "eventlet": "semaphore.saturated",
}


def start(site: Site, monitor: Monitor, **options: Any) -> CeleryWorker:
    """A worker that sends events, and is heard."""
    env = {"EVENTLET_NO_GREENDNS": "yes"}
    worker = site.start(options=["--task-events"], env=env, **options)
    wait_until(lambda: worker.hostname in monitor.state.workers, 20, "the monitor hears it")
    return worker


def ended(monitor: Monitor, *results: Any, end: str = "task-succeeded") -> None:
    wait_until(lambda: all(end in monitor.of(each) for each in results), 20, f"{end} of all")


@pytest.mark.parametrize("broker", EITHER)
@pytest.mark.parametrize("conf", [{}, PARK], ids=["requeue", "park"])
@pytest.mark.parametrize("name", ["early", "late"])
def test_a_waiting_task_is_received_and_started_once_it_has_its_permit(
    broker: str, conf: dict[str, Any], name: str, request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    with monitoring(site) as monitor:
        start(site, monitor, concurrency=3, conf=conf)
        held = site.occupy()
        waits = site.send(name, "success", "w")
        wait_until(lambda: "semaphore-saturated" in monitor.of(waits), 30, "waits")
        wait_until(lambda: "task-started" in monitor.of(held[0]), 10, "the holder is started")
        assert monitor.shown(waits) == "RECEIVED"
        assert "task-started" not in monitor.of(waits)
        assert monitor.shown(held[0]) == "STARTED"
        before = time.time()
        site.let_go()
        done([*held, waits])
        ended(monitor, *held, waits)
        said = [kind for kind in monitor.of(waits) if kind.startswith("task-")]
        assert said[-2:] == ["task-started", "task-succeeded"]
        assert said.count("task-started") == 1
        assert before - 0.1 <= monitor.one(waits, "task-started")["timestamp"] <= time.time()
        assert monitor.shown(waits) == "SUCCESS"


# Their flush() empties a buffer after it was sent, of what other threads added meanwhile, too; and such an event
# does not wake the loop that sends it. Plain tasks lose events as well.
loses_events = pytest.mark.skipif(
    celery.VERSION < (5, 7), reason="Celery before 5.7 loses buffered events of the threads pool"
)
THREADS = pytest.param("threads", marks=loses_events)


@pytest.mark.parametrize("pool", ["prefork", THREADS, "gevent", *also("eventlet", "solo")])
def test_each_run_is_started_before_it_ends(site: Site, monitor: Monitor, pool: str) -> None:
    start(site, monitor, pool=pool, concurrency=6)
    results = [site.send(("call", "call_late")[n % 2], 0.02) for n in range(20)]
    done(results)
    ended(monitor, *results)
    for result in results:
        said = [kind for kind in monitor.of(result) if kind in ("task-started", "task-succeeded")]
        assert said == ["task-started", "task-succeeded"]


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads", "gevent", *also("eventlet")])
def test_refusals_are_sent_as_events_of_tasks_are(site: Site, monitor: Monitor, pool: str) -> None:
    """One message for each would stop the event loop for each."""
    site.lease = 60.0
    store = site.store()
    store.acquire([Claim("one", None, 1)], "other")
    store.close()
    start(site, monitor, pool=pool, concurrency=2, conf={"semaphore_requeue_delay": 30})
    waiting = [site.send("hold", 0.0, "w") for _ in range(10)]
    ended(monitor, *waiting, end="semaphore-saturated")
    assert {route for route in monitor.routes if "semaphore" in route} == {ROUTES[pool]}
    # A thread of the pool sends a refusal at once, and the loop buffers what it has received.
    wait_until(lambda: all("task-received" in monitor.of(each) for each in waiting), 10, "received")
    assert {monitor.shown(each) for each in waiting} == {"RECEIVED"}
    for each in waiting:
        assert "'one' is saturated" in monitor.one(each, "semaphore-saturated")["reason"]


@pytest.mark.parametrize("name", ["early", "late"])
def test_a_long_task_is_shown_as_started_while_it_runs(
    site: Site, monitor: Monitor, name: str
) -> None:
    start(site, monitor)
    before = time.time()
    task = site.send(name, "sleep", "w")
    wait_until(lambda: monitor.of(task)[-1:] == ["task-started"], 10, "it is started")
    assert before - 0.1 <= monitor.one(task, "task-started")["timestamp"] <= time.time()
    wait_until(lambda: site.inside("w") == 1, 10, "its body runs")  # it is started by its permit
    assert monitor.of(task)[-1:] == ["task-started"]


def test_the_event_has_the_time_of_the_acquire(site: Site, monitor: Monitor) -> None:
    """In this pool it is sent when the task has ended."""
    start(site, monitor, pool="solo")
    task = site.send("call", 0.5)
    ended(monitor, task)
    ends, starts = (monitor.one(task, f"task-{what}") for what in ("succeeded", "started"))
    assert ends["timestamp"] - starts["timestamp"] >= 0.45


def test_a_dropped_task_is_shown_as_revoked(site: Site, monitor: Monitor) -> None:
    worker = start(site, monitor, app="tests.worker.signalling", concurrency=3)
    held = site.occupy()
    dropped = site.send("dropped", "w")
    ended(monitor, dropped, end="task-revoked")
    site.let_go()
    done(held)
    assert monitor.shown(dropped) == "REVOKED"
    assert "task-started" not in monitor.of(dropped)
    revoked = monitor.one(dropped, "task-revoked")
    assert [revoked[name] for name in ("terminated", "signum", "expired")] == [False, None, False]
    said = f"heard task_revoked of dropped[{dropped.id}] in main: args ['w']"
    wait_until(lambda: worker.log().count(said) == 1, 10, "receivers hear of it")


def test_a_task_that_fails_for_want_of_a_permit_was_never_started(
    site: Site, monitor: Monitor
) -> None:
    start(site, monitor, concurrency=3)
    held = site.occupy()
    failing = site.send("failing", "w")
    ended(monitor, failing, end="task-failed")
    site.let_go()
    done(held)
    assert monitor.of(failing) == ["task-received", "task-failed"]
    assert monitor.shown(failing) == "FAILURE"


def test_a_task_that_a_cold_shutdown_ends_was_started_before(
    site: Site, monitor: Monitor, tmp_path: Path
) -> None:
    """Celery cancels it in a signal handler, here right after its permit was entered."""
    env = quits_inside(tmp_path, 1)
    worker = site.start(options=["--task-events"], concurrency=1, env=env)
    task = site.send("early", "sleep", "w")
    worker.wait(30)
    ended(monitor, task, end="task-cancelled")
    assert monitor.of(task) == ["task-received", "task-started", "task-cancelled"]


# -- in this process


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("events", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    yield app
    limiter_of(app).process.store.close()


@pytest.mark.parametrize(
    ("groups", "task_sends", "expected"),
    [(["worker"], True, 0), (None, False, 0), (None, True, 1), (["worker", "task"], True, 1)],
)
def test_the_loop_is_called_only_for_an_event_that_is_sent(
    app: Celery, groups: list[str] | None, task_sends: bool, expected: int
) -> None:
    """A worker without ``--task-events`` has a dispatcher, too: for those of the group ``worker``."""
    options = {"semaphore": "one", "limit": 1, "shared": False, "send_events": task_sends}

    @app.task(base=LimitedTask, **options)
    def task() -> None:
        """Do nothing."""

    calls: list[Callable[[], object]] = []
    limiter_of(app).worker.in_loop = calls.append
    with app.connection_for_write() as connection:
        task.apply_async(connection=connection)
        message = app.amqp.queues["celery"](connection.default_channel).get(accept=["json"])
        dispatcher = app.events.Dispatcher(connection, groups=groups)
        request = symbol_by_name(task.Request)(message, app=app, eventer=dispatcher, task=task)
        request.started(time.monotonic())
    assert len(calls) == expected
