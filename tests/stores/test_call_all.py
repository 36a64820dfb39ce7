"""Several calls in one round trip to a server of the Redis family."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.store import Acquire, HandedOn, Release
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.stores.one_by_one import one_by_one
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis import RedisStore, connection, from_url, runner
from tests.conftest import StartServer
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

CLAIMS = (Claim("api", None, 9),)
OTHER = (Claim("other", None, 9),)


@pytest.fixture
def store(valkey: ValkeyServer) -> RedisStore:
    return from_url(valkey.url, StoreOptions())


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands were in each exchange."""
    counts: list[int] = []
    exchanged = connection.exchanged

    def count(connection: Any, commands: list[bytes]) -> list[Any]:
        counts.append(len(commands))
        return exchanged(connection, commands)

    monkeypatch.setattr(runner, "exchanged", count)
    return counts


def permits(answers: list[Any]) -> int:
    return sum(isinstance(each, Permit) for each in answers)


def test_they_take_one_round_trip(store: RedisStore, sent: list[int]) -> None:
    store.call_all([Acquire(CLAIMS, "a"), Release("a", CLAIMS)])
    sent.clear()
    answers = store.call_all(
        [Acquire(CLAIMS, f"h{n}") for n in range(9)] + [Release(f"h{n}", CLAIMS) for n in range(9)]
    )
    assert sent == [18]
    assert permits(answers) == 9
    assert answers[9:] == [HandedOn()] * 9


def test_a_server_that_forgot_the_scripts(
    store: RedisStore, valkey: ValkeyServer, sent: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each source is sent once, and nothing is made twice."""
    store.call_all([Acquire(CLAIMS, "a"), Release("a", CLAIMS)])
    with valkey.client() as client:
        client.script_flush()
    sent.clear()
    commands: list[bytes] = []
    exchanged = vars(runner)["exchanged"]

    def keep(connection: Any, some: list[bytes]) -> list[Any]:
        commands.extend(some)
        return exchanged(connection, some)

    monkeypatch.setattr(runner, "exchanged", keep)
    answers = store.call_all(
        [Acquire(CLAIMS, "b"), Release("b", CLAIMS), Acquire(CLAIMS, "c"), Release("d", CLAIMS)]
    )
    assert sent == [4, 4]
    assert sum(b"EVAL\r\n" in command for command in commands) == 2
    assert permits(answers) == 2
    assert [held.holder for held in store.snapshot("api").holders] == ["c"]


def test_a_broken_record_costs_its_own_caller_only(store: RedisStore, valkey: ValkeyServer) -> None:
    store.acquire(OTHER, "z")
    with valkey.client() as client:
        client.set("{celery-semaphore}:api:holders", "broken")
    first, broken, third, ended, last = store.call_all(
        [
            Acquire(OTHER, "a"),
            Acquire(CLAIMS, "b"),
            Release("z", OTHER),
            Release("b", CLAIMS),
            Acquire(OTHER, "c"),
        ]
    )
    assert isinstance(first, Permit)
    assert isinstance(broken, SemaphoreError)
    assert "WRONGTYPE" in str(broken)
    assert not isinstance(broken, StoreUnavailable)
    assert third == HandedOn()
    assert isinstance(ended, SemaphoreError)
    assert isinstance(last, Permit)


def test_a_connection_that_is_lost_in_the_middle(
    valkey: ValkeyServer, start_proxy: Callable[[int], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server made all calls; those repeated give the same answers."""
    store = from_url(valkey.url, StoreOptions())
    store.acquire(OTHER, "z")
    exchanged, lost = connection.exchanged, iter([True])

    def lose(connection: Any, commands: list[bytes]) -> list[Any]:
        answers = exchanged(connection, commands)
        if next(lost, False):
            raise redis.ConnectionError("lost")
        return answers

    monkeypatch.setattr(runner, "exchanged", lose)
    answers = store.call_all([Acquire(CLAIMS, "a"), Release("z", OTHER), Acquire(CLAIMS, "b")])
    assert permits(answers) == 2
    assert answers[1] == HandedOn()
    assert [held.holder for held in store.snapshot("api").holders] == ["a", "b"]


def test_after_a_fault_only_those_without_an_answer_are_repeated(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release tells what it granted once; the answer of a call that was made is kept."""
    store.acquire(OTHER, "z")
    exchanged, loading = connection.exchanged, iter([True])
    counts: list[int] = []

    def load(connection: Any, commands: list[bytes]) -> list[Any]:
        counts.append(len(commands))
        answers = exchanged(connection, commands)
        if next(loading, False):
            answers[1] = redis.exceptions.BusyLoadingError("LOADING")
        return answers

    monkeypatch.setattr(runner, "exchanged", load)
    answers = store.call_all([Acquire(CLAIMS, "a"), Release("z", OTHER), Acquire(CLAIMS, "b")])
    assert counts == [3, 1]
    assert permits(answers) == 2
    assert answers[1] == HandedOn()


def test_a_server_that_loads_its_data(start_valkey: StartServer) -> None:
    """redis-py closes the connection at the first such answer, and no later one of a batch can be read."""
    server = start_valkey(appendonly="yes")
    store = from_url(server.url, StoreOptions(timeout=0.5))
    store.acquire(OTHER, "z")
    with server.client() as client:
        client.execute_command("DEBUG", "POPULATE", 5000)
        client.execute_command("BGREWRITEAOF")
        wait_until(lambda: not client.info("persistence")["aof_rewrite_in_progress"])
    server.kill()
    server.options |= {"key_load_delay": "400", "loading_process_events_interval_bytes": "1024"}
    with ThreadPoolExecutor() as executor:
        started = executor.submit(server.start)
        said = set[str]()
        while not started.done():
            said |= _errors(store)
        started.result()
    assert any("LOADING" in each for each in said), said
    answers = store.call_all([Acquire(CLAIMS, "a"), Release("z", OTHER)])
    assert answers[1] == HandedOn()


def _errors(store: RedisStore) -> set[str]:
    """Return what a batch says, which is unavailable as a whole or for each call."""
    try:
        answers = store.call_all([Acquire(CLAIMS, "a"), Release("y", OTHER)])
    except StoreUnavailable as error:
        return {str(error)}
    return {str(each) for each in answers if isinstance(each, StoreUnavailable)}


def test_a_server_that_is_away(store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> Any:
        raise redis.ConnectionError("away")

    monkeypatch.setattr(runner, "exchanged", away)
    with pytest.raises(StoreUnavailable):
        store.call_all([Acquire(CLAIMS, "a"), Release("z", OTHER)])


def test_of_none_the_server_is_not_asked() -> None:
    """Each call was refused before it was sent: that is its answer, whether or not there is a server."""
    store = from_url("redis://127.0.0.1:1/0", StoreOptions())
    (answer,) = store.call_all([Acquire(CLAIMS, "h" * 5000)])
    assert isinstance(answer, SemaphoreError)
    assert not isinstance(answer, StoreUnavailable)


def test_an_acquire_names_its_message(store: RedisStore) -> None:
    """So a copy of a task that has run is known, also where the call is made again by itself."""
    first, copy = MessageId("task", "1"), MessageId("task", "2")
    store.acquire(CLAIMS, "first", None, first)
    store.release("first", CLAIMS, first)
    together = store.call_all([Acquire(CLAIMS, "a", None, copy), Acquire(OTHER, "b")])
    alone = one_by_one(store, [Acquire(CLAIMS, "c", None, copy)])
    reasons = [each.reason for each in (together[0], alone[0]) if isinstance(each, Refusal)]
    assert reasons == [Reason.COPY, Reason.COPY]
