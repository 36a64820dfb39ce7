"""All parked tasks are ended at once, and nothing else is."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery, states
from celery.exceptions import TaskRevokedError

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Outgoing
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.ops.purge import purge
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing import Clock, MemoryStore
from celery_semaphore.worker.messages.parked import packed

TAKE_UP = 20.0


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Store(MemoryStore):
    """Hands a permit on at the moment that the test wants."""

    late = False

    def end(self, names: Sequence[str]) -> Outgoing:
        if self.late:
            self.release("t0:1", claims())
        return super().end(names) | {"api"}


@pytest.fixture
def store(clock: Clock) -> Store:
    return Store(StoreOptions(take_up=TAKE_UP, now=clock))


@pytest.fixture
def app() -> Iterator[Celery]:
    app = Celery("purges", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    app.control.purge()  # a queue in memory is the process's, where other tests may leave messages
    yield app
    app.backend.client.cache.clear()


def claims(limit: int = 1) -> list[Claim]:
    return [Claim("api", None, limit)]


def hold(store: MemoryStore, task_id: str = "t0") -> None:
    assert isinstance(store.acquire(claims(), f"{task_id}:1"), Permit)


def park(
    store: MemoryStore,
    task_id: str,
    *,
    serializer: str = "json",
    body: bytes | str | None = None,
    headers: dict[str, Any] | None = None,
    **embed: Any,
) -> Ticket:
    answer = store.acquire(claims(), f"{task_id}:1", Wait(Kind.PARK))
    assert isinstance(answer, Refusal)
    assert answer.ticket
    message = SimpleNamespace(
        body=body or json.dumps([[], {}, {"chain": None, "chord": None, **embed}]),
        headers={"id": task_id, "task": "not known here"} if headers is None else headers,
        properties={},
        content_type=f"application/{serializer}",
        content_encoding="utf-8",
    )
    store.attach(
        answer.ticket, claims(), packed(message, "celery", "celery.granted", 1), name=task_id
    )
    return answer.ticket


def test_all_that_are_parked_end(app: Celery, store: MemoryStore) -> None:
    hold(store)
    for n in range(1, 4):
        park(store, f"t{n}")
    assert purge(app, store, "api") == ["t1", "t2", "t3"]
    for n in range(1, 4):
        result = app.AsyncResult(f"t{n}")
        assert result.state == states.REVOKED
        with pytest.raises(TaskRevokedError, match="purged"):
            result.get(timeout=1)
    assert store.snapshot("api").waiting == 0
    assert store.snapshot("api").occupied == 1
    assert purge(app, store, "api") == []
    store.release("t0:1", claims())
    assert list(store.resources()) == []


def test_who_comes_back_by_itself_goes_on(app: Celery, store: MemoryStore) -> None:
    hold(store)
    store.acquire(claims(), "t1:1", Wait(Kind.REQUEUE))
    store.acquire(claims(), "web/17:1", Wait(Kind.BLOCK))
    assert purge(app, store, "api") == []
    assert store.snapshot("api").waiting == 2


@pytest.mark.parametrize("late", [False, True])
def test_who_was_handed_a_permit_is_sent(app: Celery, store: Store, *, late: bool) -> None:
    """It was in the outbox, of which all is taken together; perhaps only since its name was read."""
    hold(store)
    park(store, "t1")
    park(store, "t2")
    store.late = late
    if not late:
        store.release("t0:1", claims())  # nobody took what this handed on
    app.conf.semaphore_granted_queues = False
    with app.connection_for_write() as connection:
        connection.default_channel.queue_declare("celery")
        assert purge(app, store, "api") == ["t2"]
        sent = connection.default_channel.basic_get("celery", no_ack=True)
    assert sent.headers["id"] == "t1"
    assert app.AsyncResult("t1").state == states.PENDING
    assert store.take(frozenset({"api"})) == []


def test_what_could_not_be_stored_stays(
    app: Celery, store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is offered again."""
    hold(store)
    park(store, "t1")
    with monkeypatch.context() as away:
        away.setattr(app.backend, "store_result", _fails)
        with pytest.raises(ConnectionError):
            purge(app, store, "api")
    clock.advance(TAKE_UP)
    (again,) = store.take(store.reap())
    assert again.payload
    assert app.AsyncResult("t1").state == states.PENDING


def _fails(*_: Any, **__: Any) -> None:
    raise ConnectionError


def test_its_chain_ends_with_it(app: Celery, store: MemoryStore) -> None:
    hold(store)
    follows = {"task": "next", "args": [], "kwargs": {}, "options": {"task_id": "t2"}}
    park(store, "t1", chain=[follows])
    purge(app, store, "api")
    assert app.AsyncResult("t2").state == states.REVOKED


def test_what_cannot_be_read_ends_all_the_same(app: Celery, store: MemoryStore) -> None:
    hold(store)
    park(store, "t1", serializer="x-python-serialize")
    assert purge(app, store, "api") == ["t1"]
    assert app.AsyncResult("t1").state == states.REVOKED


def test_arguments_that_cannot_be_read_are_not_logged(
    app: Celery, store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    hold(store)
    park(store, "t1", body=b'[["secret \xff"], {}, {}]')
    with caplog.at_level(logging.WARNING):
        assert purge(app, store, "api") == ["t1"]
    assert "task t1: its chord cannot be determined: DecodeError" in caplog.text
    assert "secret" not in caplog.text


OLD = {"id": "t1", "task": "known", "args": ["secret"], "kwargs": {}, "taskset": "g1", "retries": 0}


def test_messages_of_protocol_1(
    app: Celery, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their bodies have what other messages have in their headers."""
    ended: list[Any] = []
    task = SimpleNamespace(
        backend=SimpleNamespace(mark_as_failure=lambda *a, request, **_: ended.append(request)),
        ignore_result=False,
        store_errors_even_if_ignored=False,
    )
    monkeypatch.setitem(app.tasks, "known", task)
    hold(store)
    park(store, "t1", body=json.dumps({**OLD, "chord": {"chord_size": 2}}), headers={})
    assert purge(app, store, "api") == ["t1"]
    (request,) = ended
    assert (request.id, request.group, request.chord) == ("t1", "g1", {"chord_size": 2})
    assert store.snapshot("api").waiting == 0


@pytest.mark.parametrize("body", ['["secret"', '"secret"', "{}", "[]"])
def test_messages_of_protocol_1_that_cannot_be_read(
    app: Celery, store: MemoryStore, caplog: pytest.LogCaptureFixture, body: str
) -> None:
    hold(store)
    park(store, "t1", body=body, headers={})
    with caplog.at_level(logging.WARNING):
        assert purge(app, store, "api") == ["t1"]
    assert app.AsyncResult("t1").state == states.REVOKED
    assert "task t1: its chord cannot be determined" in caplog.text
    assert "secret" not in caplog.text
