"""The granted queues at the end of a worker."""

from __future__ import annotations

import socket
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.bootsteps import CLOSE, RUN
from celery.concurrency.prefork import TaskPool
from celery.worker import state

from celery_semaphore.worker.main_process import bootstep
from celery_semaphore.worker.main_process.bootstep import _bounded_answers
from celery_semaphore.worker.main_process.granted import GrantedQueues, _consumer
from tests.support.proxy import Proxy

from ..conftest import Site
from ..messages.test_brokers import at_port


@pytest.mark.parametrize(
    ("broker", "how", "cancels"),
    [
        ("pyamqp://", {}, 1),
        ("pyamqp://", {"should_stop": 0}, 1),
        ("pyamqp://", {"should_terminate": 1}, 0),
        ("pyamqp://", {"should_terminate": 0}, 0),  # another exit code
        ("redis://", {"should_terminate": 1}, 1),
    ],
)
def test_a_cold_end_waits_for_no_answer_of_rabbitmq(
    monkeypatch: pytest.MonkeyPatch, broker: str, how: dict[str, int], cancels: int
) -> None:
    """A handler of QUIT may have cut a frame in two: each question then takes until its time-out."""
    for name, exitcode in how.items():
        monkeypatch.setattr(state, name, exitcode)
    asked: list[str] = []
    app = Celery(broker=broker, set_as_current=False)
    c: Any = SimpleNamespace(app=app, add_task_queue=None, cancel_task_queue=None, _limit_task=None)
    queues = GrantedQueues(c, limiter=SimpleNamespace())  # type: ignore[arg-type]
    queues.cancel()
    queues._own = SimpleNamespace(cancel=lambda: asked.append("cancel"))
    c.connection_errors = c.channel_errors = ()
    queues.cancel()
    assert len(asked) == cancels


@pytest.mark.parametrize(
    ("how", "longest"), [("should_stop", 5.0), ("should_terminate", 1.0)], ids=["warm", "cold"]
)
def test_an_answer_is_waited_for_in_bounds(
    monkeypatch: pytest.MonkeyPatch, how: str, longest: float
) -> None:
    """A cold shutdown has less time: Celery's handler of QUIT, and its control, waited in vain before."""
    monkeypatch.setattr(state, how, 0)
    ours, broker = socket.socketpair()
    transport = SimpleNamespace(sock=ours)
    connection = SimpleNamespace(connected=True, connection=SimpleNamespace(transport=transport))
    c = SimpleNamespace(app=Celery(broker="pyamqp://", set_as_current=False), connection=connection)
    with ours, broker:
        with _bounded_answers(c):
            assert ours.gettimeout() == longest
            with pytest.raises(TimeoutError):
                ours.recv(1)
        assert ours.gettimeout() == 0.1


def test_the_second_answer_is_not_waited_for_once_the_first_did_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A supervisor would lose its patience with a worker that waits for each of them."""
    monkeypatch.setattr(bootstep, "ANSWER_S", 0.2)
    monkeypatch.setattr(state, "should_stop", 0)
    waited: list[float | None] = []
    ours, broker = socket.socketpair()

    def cancel() -> None:
        waited.append(ours.gettimeout())
        with pytest.raises(TimeoutError):
            ours.recv(1)

    transport = SimpleNamespace(sock=ours)
    connection = SimpleNamespace(connected=True, connection=SimpleNamespace(transport=transport))
    c: Any = SimpleNamespace(
        app=Celery(broker="pyamqp://", set_as_current=False),
        blueprint=SimpleNamespace(state=CLOSE),
        connection=connection,
        connection_errors=(),
        channel_errors=(),
        task_consumer=SimpleNamespace(cancel=cancel),
    )
    granted = SimpleNamespace(cancel=cancel, leave=lambda *, ends: None)
    step = _step(_limiter([]), granted)
    monkeypatch.setattr(bootstep, "give_back_unread", lambda _: None)
    with ours, broker:
        bootstep.SemaphoreConsumerStep.stop(step, c)
    assert waited == [0.2, 0.1]


def _step(limiter: Any, granted: Any) -> Any:
    def forget(*, ends: bool) -> None: ...

    return SimpleNamespace(
        limiter=limiter, granted=granted, kept=None, asker=None, _forget_waiting=forget
    )


def _limiter(waited: list[float]) -> SimpleNamespace:
    return SimpleNamespace(
        settings=SimpleNamespace(publish_timeout=10.0),
        mover=SimpleNamespace(flush=waited.append, leave=lambda _: None),
        queues=SimpleNamespace(leave=lambda: None, join=lambda _: None),
        sweeper=SimpleNamespace(soon=lambda: None),
        close=lambda _timeout, *, flush: waited.append(flush),
        worker=SimpleNamespace(connections=1, homes=frozenset()),
    )


@pytest.mark.parametrize(
    ("how", "longest"),
    [("should_stop", [10.0, 5.0]), ("should_terminate", [2.0, 2.0])],
    ids=["warm", "cold"],
)
def test_what_goes_back_is_waited_for_in_bounds(
    monkeypatch: pytest.MonkeyPatch, how: str, longest: list[float]
) -> None:
    """The broker may be away: it delivers again what a cold shutdown did not give back."""
    monkeypatch.setattr(state, how, 0)
    waited: list[float] = []
    step = _step(_limiter(waited), None)
    c: Any = SimpleNamespace(app=None, connection=None, blueprint=SimpleNamespace(state=CLOSE))
    bootstep.SemaphoreConsumerStep.stop(step, c)
    bootstep.SemaphoreConsumerStep.shutdown(step, c)
    assert waited == longest


@pytest.mark.parametrize(
    ("how", "done"), [(CLOSE, ["give back", "leave"]), (RUN, ["forget", "give back"])]
)
def test_a_granted_queue_that_was_emptied_is_watched(how: int, done: list[str]) -> None:
    """RabbitMQ may handle the reject of one connection after it answered the look of another one.

    After a lost connection the store may know of no worker, since none could say what it consumes.
    """
    limiter, called = _limiter([]), list[str]()
    limiter.worker.homes = frozenset({"celery"})
    limiter.queues.disconnected = lambda: None
    limiter.mover.leave = lambda homes: called.append("leave" if homes == {"celery"} else "")
    limiter.mover.forget_watched = lambda: called.append("forget")
    granted = SimpleNamespace(cancel=lambda: None, leave=lambda *, ends: called.append("give back"))
    c: Any = SimpleNamespace(app=None, connection=None, blueprint=SimpleNamespace(state=how))
    bootstep.SemaphoreConsumerStep.stop(_step(limiter, granted), c)
    assert called == done


@pytest.mark.rabbitmq
def test_a_shutdown_waits_for_no_answer_for_ever(
    rabbit_site: Site, start_proxy: Callable[[int], Proxy]
) -> None:
    """Celery's handler of QUIT may cut a frame of the shutdown by TERM in two: then RabbitMQ answers nothing more."""
    site = rabbit_site
    port = int(site.broker.split(":")[3].split("/")[0])
    proxy = start_proxy(port)
    env = {"BROKER": at_port(site.broker, proxy.port)}
    # These have connections of their own, which would hang too.
    alone = ["--without-gossip", "--without-heartbeat"]
    worker = site.start(concurrency=1, env=env, options=alone)
    site.send("free").get(timeout=20)  # or the worker's first question would hang, before its end
    proxy.hang()
    worker.warm()
    worker.wait(60)


def test_a_cold_shutdown_may_have_ended_the_pool() -> None:
    """A worker that connects anew in that moment ends as it was told, not by an error."""
    prefetched: list[int] = []
    channel = SimpleNamespace(basic_qos=lambda _size, count, _all: prefetched.append(count))
    app = SimpleNamespace(
        conf=SimpleNamespace(get=lambda _: None, accept_content=()),
        amqp=SimpleNamespace(Consumer=lambda *_, **__: None),
    )
    c: Any = SimpleNamespace(
        app=app,
        connection=SimpleNamespace(channel=lambda: channel),
        controller=SimpleNamespace(),
        pool=TaskPool(2),
        on_decode_error=None,
    )
    _consumer(c)
    assert prefetched == [1], "0 would stand for no limit"
