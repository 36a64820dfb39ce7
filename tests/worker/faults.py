"""Processes that die exactly there: at one named point, once or a few times.

``FAULT`` is "child|main: before|after <step>"; ``FAULT_FILE`` is made when it struck. With ``FAULT_TIMES`` it strikes
more often, and makes ``FAULT_FILE`` with ``.1``, ``.2`` and so on for each further time. With ``FAULT_DELAY_S`` other
threads go on for so long before it strikes. With ``FAULT_GOES_ON``, nothing dies: the step waits until this file is
there, and goes on with what the test did meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import redis
from billiard import pool
from celery.concurrency.asynpool import AsynPool
from celery.signals import celeryd_after_setup, task_received
from celery.utils.log import get_logger
from kombu.common import QoS
from kombu.transport.redis import MultiChannelPoller

from celery_semaphore.core import releaser, sweep
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.worker.main_process.request import LimitedRequestMixin
from celery_semaphore.worker.messages import parking_watch, publisher
from celery_semaphore.worker.messages.publisher import Publisher
from celery_semaphore.worker.permits.note import NotePipe
from tests.support.process import wait_until

OWNERS: dict[str, type] = {
    "asked": NotePipe,
    "held": NotePipe,
    "released": NotePipe,
    "publish": Publisher,
}  # all other steps are the store's


def install(fault: str, path: str) -> None:
    """Let the fault strike in this process and its children."""
    who, _, when = fault.partition(": ")
    moment, _, step = when.partition(" ")
    owner = OWNERS.get(step) or type(store_from_url(os.environ["STORE"]))
    original: Callable[..., Any] = getattr(owner, step)
    main = os.getpid()  # the app is imported before the pool's processes fork

    def victim() -> int:
        return main if who == "main" else os.getpid()

    def faulty(*args: Any, **kwargs: Any) -> Any:
        if moment == "before":
            _strike(victim(), path)
        answer = original(*args, **kwargs)
        if moment == "after":
            _strike(victim(), path)
        return answer

    setattr(owner, step, faulty)


def _strike(process: int, path: str) -> None:
    times = int(os.environ.get("FAULT_TIMES", "1"))
    if not any(_is_first(f"{path}.{n}" if n else path) for n in range(times)):
        return
    if "FAULT_GOES_ON" in os.environ:
        wait_until(Path(os.environ["FAULT_GOES_ON"]).exists, 60, "the test's part is done")
        return
    time.sleep(float(os.environ.get("FAULT_DELAY_S", "0")))
    os.kill(process, signal.SIGKILL)
    signal.pause()  # a child whose main process died is killed a moment later


def _is_first(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def log_noted() -> None:
    """Let a main process say whose permit it has noted: from then on early acks are Celery's.

    And whose message the broker has confirmed: from then on it is the broker's.
    """
    original = LimitedRequestMixin.permit_held

    def permit_held(self: LimitedRequestMixin, since: float) -> None:
        get_logger(__name__).info("noted %s at %.3f", self.id, time.monotonic())
        original(self, since)

    LimitedRequestMixin.permit_held = permit_held  # type: ignore[method-assign]
    confirmed = Publisher.publish

    def publish(
        self: Publisher, message: Any, *args: Any, delay: float = 0.0, **kwargs: Any
    ) -> None:
        confirmed(self, message, *args, delay=delay, **kwargs)
        get_logger(__name__).info(
            "published %s at %.3f for %d s", message.headers["id"], time.monotonic(), delay
        )

    Publisher.publish = publish  # type: ignore[method-assign]


def log_reading() -> None:
    """Let a main process say since when kombu 5.7 leaves the answer of Redis unread, which may have a message.

    It does so while the prefetch is used up; a process that is killed then takes the message along.
    """
    original = getattr(MultiChannelPoller, "_update_brpop_polling", None)
    if original is None:
        return

    def update(self: Any) -> None:
        before = bool(self._paused_brpop)
        original(self)
        if before is not bool(self._paused_brpop):
            what = "again" if before else "no more"
            get_logger(__name__).info("Redis is read %s at %.3f", what, time.monotonic())

    MultiChannelPoller._update_brpop_polling = update  # type: ignore[method-assign]


def publish_by(url: str) -> None:
    """Let waiting messages go to the broker by another way than the one by which it delivers."""
    original = publisher._confirming

    def confirming(app: Any, timeout: float) -> Any:
        by_url = SimpleNamespace(connection_for_read=partial(app.connection_for_read, url))
        return original(by_url, timeout)

    publisher._confirming = confirming


def log_prefetch() -> None:
    """Let a main process say which thread asks the broker for another prefetch."""
    original = QoS.set

    def set_and_tell(self: QoS, pcount: int) -> Any:
        get_logger(__name__).info("prefetch %d by %s", pcount, threading.current_thread().name)
        return original(self, pcount)

    QoS.set = set_and_tell  # type: ignore[method-assign]


def look_for_dead(seconds: float) -> None:
    """Let the pool look so often for processes that have ended: each five seconds, if it missed the end of one."""
    AsynPool.timers = property(lambda self: {self.maintain_pool: seconds})


def look_often(seconds: float) -> None:
    """Let the worker decide so often whether waiting tasks are parked."""
    parking_watch.LOOK_S = seconds


def log_looks(path: str) -> None:
    """Let the worker write a line for each time that it asks the broker for its server."""
    original = parking_watch.ParkingWatch._broker

    def asks(self: Any) -> Any:
        with Path(path).open("a") as log:
            log.write("asked\n")
        return original(self)

    parking_watch.ParkingWatch._broker = asks  # type: ignore[method-assign]


def rest_long() -> None:
    """Let the releaser read no notes of its own accord."""
    releaser.IDLE_CHECK_S = 3600.0


def sweep_once() -> None:
    """Let the worker sweep at its start, and not again."""
    sweep.SWEEP_S = sweep.LONGEST_SWEEP_S = 3600.0


def answer_no_question(path: str) -> None:
    """Let no session get an answer once this file exists."""
    store = type(store_from_url(os.environ["STORE"]))
    ask: Callable[..., Any] = store.ask

    def unanswered(*args: Any, **kwargs: Any) -> Any:
        if Path(path).exists():
            raise StoreUnavailable("no answer")
        return ask(*args, **kwargs)

    store.ask = unanswered  # type: ignore[method-assign]


def log_messages(path: str) -> None:
    """Let a main process write down each message of a task as the broker delivered it."""

    def log(request: Any, **_: Any) -> None:
        message = request.message
        body = message.body if isinstance(message.body, bytes) else message.body.encode()
        came = {
            "id": request.id,
            "body": body.hex(),
            "headers": message.headers,
            "properties": message.properties,
            "content": [message.content_type, message.content_encoding],
            "route": "{exchange}/{routing_key}".format(**message.delivery_info),
        }
        with open(path, "a", encoding="utf-8") as file:  # noqa: PTH123 - one write, in one piece
            file.write(json.dumps(came, default=repr) + "\n")

    task_received.connect(log, weak=False)


def flush_after_setup(url: str) -> None:
    """Let the store forget all, after the worker opened it and before any of its threads runs."""

    def flush(**_: Any) -> None:
        with redis.Redis.from_url(url) as client:
            client.flushall()

    celeryd_after_setup.connect(flush, weak=False)


def log_forgotten() -> None:
    """Let a main process say how many tasks its pool forgot when it was flushed.

    A process that ran one waits 30 seconds at its end until somebody has read its result: here, one.
    """
    original = AsynPool.flush

    def flush(self: Any) -> None:
        before = len(self._cache)
        original(self)
        get_logger(__name__).info("forgot %d", before - len(self._cache))

    AsynPool.flush = flush
    pool.GUARANTEE_MESSAGE_CONSUMPTION_RETRY_LIMIT = 10
