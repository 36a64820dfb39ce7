"""A second worker in one process, as tests of users start them one after the other."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import closing
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker
from celery.signals import setup_logging

from celery_semaphore import LimitedTask
from celery_semaphore.core import sweep
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.store import Store
from celery_semaphore.settings import Settings
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.variants import also

ONE = Claim("one", None, 1)


def parking(url: str) -> Any:
    app = Celery("twice", broker=url, backend=url, set_as_current=False)

    @app.task(base=LimitedTask, semaphore="one", limit=1, name="nap", shared=False)
    def nap() -> None:
        time.sleep(0.1)

    app.conf.semaphore_on_saturated = "park"
    return nap


@pytest.fixture
def logging_as_it_is() -> Iterator[None]:
    """Celery sets the level of the root logger unless somebody else does it; later tests read warnings."""

    def nothing(**_: Any) -> None: ...

    setup_logging.connect(nothing)
    yield
    setup_logging.disconnect(nothing)


@pytest.fixture(params=["another app", *also("the same app")])
def workers(
    valkey: ValkeyServer, request: pytest.FixtureRequest, logging_as_it_is: None
) -> Iterator[Iterator[Any]]:
    """The task of each of two workers, while that one runs."""
    first = parking(valkey.url)
    second = first if request.param == "the same app" else parking(valkey.url)

    def one_after_the_other() -> Generator[Any]:
        for nap in (first, second):
            with start_worker(nap.app, pool="threads", concurrency=3, perform_ping_check=False):
                yield nap

    with closing(one_after_the_other()) as each:
        yield each


def test_each_brings_back_what_it_hands_on(
    workers: Iterator[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweep, "SWEEP_S", 60.0)  # nobody else shall find it
    monkeypatch.setattr(LeaseKeeper, "tick", lambda _: None)
    for nap in workers:
        for result in [nap.delay() for _ in range(4)]:
            result.get(timeout=20, disable_sync_subtasks=False)


def one_waits(store: Store) -> bool:
    return store.snapshot("one").waiting == 1


def test_each_finds_what_others_handed_on(
    workers: Iterator[Any], valkey: ValkeyServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a client, which has no broker."""
    monkeypatch.setattr(LeaseKeeper, "tick", lambda _: None)  # or it might find it, much later
    broker = valkey.client()
    for nap in workers:
        client, holder = Settings.from_app(nap.app).open_store(), f"client:{uuid4()}"
        client.acquire([ONE], holder)
        result = nap.delay()
        wait_until(partial(one_waits, client), 10, "it waits")
        wait_until(lambda: broker.hlen("unacked") == 0, 10, "it is parked")
        assert client.release(holder, [ONE]).outgoing, "it is handed on"
        client.close()
        result.get(timeout=20, disable_sync_subtasks=False)
