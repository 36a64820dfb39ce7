"""Requests that are answered late, in vain, or not at all; no emulator is needed."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import get_context
from typing import Any

import pytest

from celery_semaphore.errors import ConfigurationError, StoreFull, StoreUnavailable
from celery_semaphore.stores.documents.documents import Busy
from celery_semaphore.stores.dynamodb import DynamoStore, from_url
from celery_semaphore.stores.dynamodb.table import check_schema, definition
from celery_semaphore.stores.non_reentrant_lock import AlreadyInCall
from celery_semaphore.stores.options import StoreOptions
from tests.stores.conftest import claim

from .answering import Answering, answering, error

FORK = get_context("fork")
TIMEOUT = 0.4
BUSY_S = 1.5  # that a busy machine may take longer


@pytest.fixture
def server() -> Iterator[Answering]:
    with answering() as server:
        yield server


def opened(url: str, timeout: float = TIMEOUT) -> DynamoStore:
    options = StoreOptions(timeout=timeout, transport_options={"endpoint_url": url})
    store = from_url("dynamodb://eu-west-1/permits", options)
    store._link._made()
    return store


@pytest.fixture
def store(server: Answering) -> Iterator[DynamoStore]:
    with closing(opened(server.url)) as store:
        yield store


def seconds_of(call: Callable[[], object], said: str) -> float:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match=said):
        call()
    return time.monotonic() - began


def test_one_that_never_answers_takes_no_longer_than_a_call_may() -> None:
    """Without it (the driver's own timeouts, of a minute) a worker stands still."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(50)
        with closing(opened(f"http://127.0.0.1:{silent.getsockname()[1]}")) as store:
            for call in (lambda: store.acquire(claim(), "a"), store.check):
                assert seconds_of(call, "Read timeout") < TIMEOUT + BUSY_S


def test_one_that_is_slow_takes_no_longer_either(server: Answering, store: DynamoStore) -> None:
    """Without it (only each request is bounded) a call takes as long as all its requests together."""
    link = store._link
    server.answer = lambda _: (200, {"Table": {}})
    with link.within(TIMEOUT):
        link.call("describe_table")
        time.sleep(TIMEOUT * 0.8)  # for less time than this no request is begun
        with pytest.raises(Busy, match="no time is left"):
            link.call("describe_table")
    with link.within(TIMEOUT / 4):  # of which a sweep makes many
        link.call("describe_table")
    assert len(server.asked) == 2


def test_a_port_without_a_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with closing(opened(url)) as store:
            took = seconds_of(lambda: store.acquire(claim(), "a"), "Could not connect")
        assert took < TIMEOUT + BUSY_S


def test_one_that_is_throttled_is_asked_again_until_the_time_is_over(
    server: Answering, store: DynamoStore
) -> None:
    server.answer = lambda _: error("ProvisionedThroughputExceededException")
    took = seconds_of(lambda: store.acquire(claim(), "a"), "ProvisionedThroughputExceeded")
    assert took < TIMEOUT + BUSY_S
    assert len(server.asked) > 1


def test_one_that_answers_in_part_is_asked_for_the_rest(
    server: Answering, store: DynamoStore
) -> None:
    """Without it a throttled item is taken for one that is not there, and there are two permits of one."""
    keys = {"permits": {"Keys": [{"pk": {"S": "a"}}] * 3, "ConsistentRead": True}}
    server.answer = lambda _: (200, {"Responses": {"permits": []}, "UnprocessedKeys": keys})
    seconds_of(lambda: store.acquire(claim(), "a"), "is throttled")
    assert {*server.asked} == {"BatchGetItem"}


def test_one_that_refuses_the_process_ends_a_worker_that_starts(
    server: Answering, store: DynamoStore
) -> None:
    server.answer = lambda _: error("AccessDeniedException", message="not you")
    with pytest.raises(ConfigurationError, match=r"semaphore_url: .*not you"):
        store.check()
    asked = len(server.asked)
    seconds_of(lambda: store.acquire(claim(), "a"), "not you")
    assert len(server.asked) == asked + 1  # it is not asked again


def test_a_table_that_is_missing(server: Answering, store: DynamoStore) -> None:
    server.answer = lambda _: error("ResourceNotFoundException")
    with pytest.raises(ConfigurationError, match="names table permits in eu-west-1") as said:
        store.check()
    assert "semaphore install" in str(said.value)
    seconds_of(lambda: store.acquire(claim(), "a"), "semaphore install")
    assert "CreateTable" not in server.asked


def test_a_table_of_something_else(server: Answering, store: DynamoStore) -> None:
    other = definition("permits") | {
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "N"}],
    }
    server.answer = lambda _: (200, {"Table": other | {"TableStatus": "ACTIVE"}})
    for call in (store.check, store.install):
        with pytest.raises(ConfigurationError, match=r"has the key id \(N, HASH\)"):
            call()


def test_a_table_without_the_index() -> None:
    check_schema(definition("permits"))
    with pytest.raises(ConfigurationError, match="has no index 'due'"):
        check_schema(definition("permits") | {"GlobalSecondaryIndexes": []})


def test_an_item_that_is_too_large_is_refused_as_by_a_full_store(
    server: Answering, store: DynamoStore
) -> None:
    said = "Item size has exceeded the maximum allowed size"
    server.answer = lambda _: error("ValidationException", message=said)
    with pytest.raises(StoreFull, match="maximum allowed size"):
        store.acquire(claim(), "a")


def test_without_a_key_of_aws_it_says_so(
    server: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nowhere")
    with (
        closing(opened(server.url)) as store,
        pytest.raises(ConfigurationError, match="credentials"),
    ):
        store.check()


def test_a_profile_that_is_not_there(server: Answering) -> None:
    given = {"endpoint_url": server.url, "profile": "nobody"}
    store = from_url("dynamodb://eu-west-1/permits", StoreOptions(transport_options=given))
    with pytest.raises(ConfigurationError, match="nobody"):
        store.check()


def test_a_child_has_a_client_of_its_own(server: Answering, store: DynamoStore) -> None:
    """Without it parent and child read each other's answers from one connection."""
    server.answer = lambda _: error("ValidationException")
    seconds_of(lambda: store.acquire(claim(), "a"), "it is so")
    before = store._link._client

    def child() -> bool:
        seconds_of(lambda: store.acquire(claim(), "a"), "it is so")
        return store._link._client is not before

    queue: Any = FORK.SimpleQueue()
    with store._link._making:  # held by another thread of the parent, for all that the child knows
        process = FORK.Process(target=lambda: queue.put(child()))
        process.start()
        process.join(20)
        assert process.exitcode == 0
        assert queue.get()
    assert store._link._client is before


def test_a_signal_handler_that_calls_during_a_request_is_refused_at_once(
    server: Answering, store: DynamoStore
) -> None:
    """Without it the handler may wait for ever for a lock of the driver, which its own thread has."""
    said: list[StoreUnavailable] = []

    def call_again(_: str) -> tuple[int, dict[str, Any]]:
        return error("ValidationException")

    client = store._link._made()
    original = client.batch_get_item

    def interrupted(**given: Any) -> Any:
        with pytest.raises(AlreadyInCall) as refused:
            store.snapshot("api")
        said.append(refused.value)
        return original(**given)

    server.answer = call_again
    client.batch_get_item = interrupted
    seconds_of(lambda: store.acquire(claim(), "a"), "it is so")
    assert said


def test_threads_call_beside_each_other(server: Answering) -> None:
    """Without it one slow answer keeps all threads of a process waiting."""
    both, store = threading.Barrier(2, timeout=5), opened(server.url, timeout=20)

    def together(_: str) -> tuple[int, dict[str, Any]]:
        both.wait()
        return error("ValidationException")

    server.answer = together
    calls = [threading.Thread(target=seconds_of, args=(store.decisions, "it is so")) for _ in "ab"]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert len(server.asked) == 2
    assert not both.broken
    store.close()


def test_threads_take_turns_at_a_key(server: Answering) -> None:
    """Without it each repeats what another one has made vain, and some find no turn at all."""
    inside, most = list[str](), list[int]()
    store = opened(server.url, timeout=20)

    def alone(operation: str) -> tuple[int, dict[str, Any]]:
        inside.append(operation)
        time.sleep(0.05)
        most.append(len(inside))
        inside.pop()
        return error("ValidationException")

    server.answer = alone
    calls = [
        threading.Thread(target=seconds_of, args=(lambda: store.release("a", claim()), "it is so"))
        for _ in "abc"
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()
    assert most == [1, 1, 1]
    store.close()
