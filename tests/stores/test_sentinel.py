"""A failover that sentinels decide: the permits are where the new primary is."""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from redis.sentinel import SentinelConnectionPool

from celery_semaphore.core.permit import Answer, Permit, Reason, Refusal, Renewal
from celery_semaphore.core.store import Store
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis.sentinel import INTERVAL_S, PrimaryFinder
from celery_semaphore.stores.redis.url import pool_from_url
from tests.conftest import need
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.sentinel import MASTER, OPTIONS, SentinelServer
from tests.support.servers import RedisServer

from .conftest import claim, permit_of

Open = Callable[..., Store]


@pytest.fixture
def sentinel() -> Iterator[SentinelServer]:
    need(RedisServer)
    with SentinelServer() as sentinel:
        yield sentinel


@pytest.fixture
def open_store(sentinel: SentinelServer) -> Iterator[Open]:
    stores = list[Store]()

    def open_store(lease: float, url: str = sentinel.url) -> Store:
        options = StoreOptions(lease=lease, timeout=1.0, transport_options=OPTIONS)
        stores.append(store_from_url(url, options))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def answered(store: Store, holder: str, limit: int = 2) -> Answer | None:
    with contextlib.suppress(StoreUnavailable):
        return store.acquire(claim(limit), holder)
    return None


def is_primary(server: RedisServer) -> bool:
    with server.client() as client:
        return bool(client.info("replication")["role"] == "master")


@pytest.mark.slow
def test_who_runs_keeps_its_permit_over_a_failover(
    open_store: Open, sentinel: SentinelServer
) -> None:
    store = open_store(6.0)
    held = [permit_of(store.acquire(claim(2), holder)) for holder in "ab"]
    primary = sentinel.primary()
    wait_until(lambda: followed(primary), 5, "both are at the replica")
    primary.kill()
    answer = wait_until(lambda: answered(store, "new"), 30, "an answer", log=sentinel.log)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.RECOVERING
    assert set(store.renew(held).values()) <= {Renewal.OK, Renewal.RESTORED}
    store.release("a", claim(2))
    wait_until(lambda: isinstance(answered(store, "newer"), Permit), 10, "the grace ends")
    assert not isinstance(answered(store, "newest"), Permit), "b still runs"


def followed(primary: RedisServer) -> bool:
    with primary.client() as client:
        info = client.info("replication")
        replica = info["slave0"]
        return replica["state"] == "online" and replica["offset"] == info["master_repl_offset"]


@pytest.mark.slow
def test_a_former_primary_admits_none(open_store: Open, sentinel: SentinelServer) -> None:
    """An open connection leads to it, and for some ten seconds it goes on as a primary."""
    former, other = open_store(3.0), open_store(3.0)
    assert isinstance(former.acquire(claim(1), "first"), Permit)
    former.release("first", claim(1))
    primary = sentinel.primary()
    wait_until(lambda: followed(primary), 5, "the epoch is at the replica")
    sentinel.promote()
    sentinel.wait_primary_is_not(primary)
    wait_until(lambda: isinstance(answered(other, "held", 1), Permit), 10, "the grace ends")
    answer = answered(former, "above", 1)
    assert is_primary(primary), "it has become a replica: this has tested nothing"
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.SATURATED


class Questions:
    """Counts how often the sentinels of a pool are asked."""

    def __init__(self, pool: SentinelConnectionPool, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._ask: Any = pool.get_master_address
        self.meanwhile: Callable[[], object] = lambda: None
        monkeypatch.setattr(pool, "get_master_address", self)

    def __call__(self) -> Any:
        self.count += 1
        self.meanwhile()
        return self._ask()


@pytest.fixture
def pool(sentinel: SentinelServer) -> SentinelConnectionPool:
    options = StoreOptions(timeout=0.5, transport_options=OPTIONS)
    pool = pool_from_url(sentinel.url, options)
    assert isinstance(pool, SentinelConnectionPool)
    return pool


@pytest.fixture
def questions(pool: SentinelConnectionPool, monkeypatch: pytest.MonkeyPatch) -> Questions:
    return Questions(pool, monkeypatch)


def test_many_calls_ask_once(pool: SentinelConnectionPool, questions: Questions) -> None:
    finder = PrimaryFinder(pool)
    began = time.monotonic()
    for _ in range(100):
        finder.moved()
    assert questions.count <= 1 + (time.monotonic() - began) / INTERVAL_S


def test_silent_sentinels_do_not_hold_up_each_call(
    pool: SentinelConnectionPool, questions: Questions, sentinel: SentinelServer
) -> None:
    finder = PrimaryFinder(pool)
    assert finder.moved()
    with sentinel.paused():
        wait_until(lambda: finder.moved() or questions.count == 2, 10, "the sentinel is asked")
        asked = time.monotonic()  # it took the timeout of half a second
        while time.monotonic() < asked + 2 * INTERVAL_S:
            assert not finder.moved()
    assert questions.count == 2


def test_silence_is_told_once(
    pool: SentinelConnectionPool,
    questions: Questions,
    sentinel: SentinelServer,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("celery_semaphore.stores.redis.sentinel.TIMES", 0)
    finder = PrimaryFinder(pool)
    sentinel.kill()
    wait_until(lambda: finder.moved() or questions.count == 3, 10, "the sentinel is asked")
    (record,) = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert record.getMessage() == (
        f"The sentinels name no primary, so a failover is not noticed: No master found for '{MASTER}'"
    )


def test_a_signal_meanwhile_asks_nothing(
    pool: SentinelConnectionPool, questions: Questions
) -> None:
    """redis-py holds a lock while it asks."""
    finder = PrimaryFinder(pool)
    answers = list[bool]()
    questions.meanwhile = lambda: answers.append(finder.moved())
    assert finder.moved()
    assert answers == [False]
    assert questions.count == 1


def test_a_child_asks_though_a_thread_of_its_parent_did(
    pool: SentinelConnectionPool, questions: Questions
) -> None:
    finder = PrimaryFinder(pool)
    code = list[int]()

    def fork() -> None:
        questions.meanwhile = lambda: None
        if (pid := os.fork()) == 0:
            os._exit(0 if finder.moved() else 1)
        code.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    questions.meanwhile = fork
    finder.moved()
    assert code == [0]


def test_a_dead_sentinel_is_asked_once(open_store: Open, sentinel: SentinelServer) -> None:
    with Proxy(sentinel.port) as broken:
        broken.drop_answers(100)
        store = open_store(3.0, f"sentinel://127.0.0.1:{broken.port};{sentinel.url}")
        assert isinstance(store.acquire(claim(1), "first"), Permit)
        assert broken.requests == 1


def test_no_sentinel_answers(open_store: Open) -> None:
    store = open_store(3.0, "sentinel://127.0.0.1:1")
    with pytest.raises(StoreUnavailable) as caught:
        store.acquire(claim(1), "first")
    assert str(caught.value) == f"The store did not answer: No master found for '{MASTER}'"
