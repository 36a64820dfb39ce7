"""The name of a broker, and whose messages a process takes, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core.store import BROKER_FOR_S
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.settings import Settings
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.testing.clock import Clock
from celery_semaphore.worker.messages.broker import name_of_broker
from celery_semaphore.worker.messages.brokers import ALONE_S, Brokers
from celery_semaphore.worker.messages.consumed_queues import ConsumedQueues
from celery_semaphore.worker.messages.parked import Parked

ALIKE = [
    ["redis://h", "redis://h:6379/0", "redis://:secret@H/0", "redis://u:secret@h:6379"],
    ["amqp://h", "amqp://guest:secret@h:5672//", "pyamqp://h:5672/%2F"],
    ["amqp://a//;amqp://b//", "amqp://b//;amqp://a:5672//"],
    ["sentinel://a:26379/1;sentinel://b:26379/1", "sentinel://:secret@b:26379/1;sentinel://a/1"],
    ["redis+socket:///tmp/a", "redis+socket://:secret@/tmp/a"],
]
OTHERS = [
    *["redis://h/0", "redis://h/1", "redis://h:6380/0", "redis://other/0", "amqp://h//"],
    *["amqp://h/region", "amqp://h//;amqp://other//", "redis+socket:///tmp/a.sock"],
]


def app_of(url: str, **conf: Any) -> Celery:
    app = Celery("named", broker=url, set_as_current=False)
    app.conf.update(semaphore_url="memory://", **conf)
    return app


@pytest.mark.parametrize("urls", ALIKE, ids=lambda urls: urls[0])
def test_one_broker_has_one_name(urls: list[str]) -> None:
    names = {name_of_broker(app_of(url)) for url in urls}
    assert len(names) == 1
    assert "secret" not in names.pop()


def test_other_brokers_have_other_names() -> None:
    assert len({name_of_broker(app_of(url)) for url in OTHERS}) == len(OTHERS)


@pytest.mark.parametrize("option", ["global_keyprefix", "master_name"])
def test_what_selects_a_broker_at_one_address(option: str) -> None:
    url = "redis://h/0"
    plain = name_of_broker(app_of(url, broker_transport_options={"visibility_timeout": 9}))
    assert plain == "redis://h:6379/0"
    given = name_of_broker(app_of(url, broker_transport_options={option: "a"}))
    assert given == f"redis://h:6379/0 {option}=a"


def test_the_broker_that_workers_read_from() -> None:
    app = app_of("amqp://x//", broker_read_url="redis://r/3", broker_write_url="redis://w/3")
    assert name_of_broker(app) == "redis://r:6379/3"


def test_a_setting_names_it() -> None:
    app = app_of("redis://h/0", semaphore_broker="ours")
    assert Brokers(app, Settings.from_app(app), MemoryStore).own == "ours"
    with pytest.raises(ConfigurationError, match="semaphore_broker='' must be a string"):
        Settings.from_app(app_of("redis://h/0", semaphore_broker=""))


# -- whose messages are taken


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(
        "celery_semaphore.worker.messages.brokers.time", SimpleNamespace(monotonic=clock)
    )
    return clock


@pytest.fixture
def store(clock: Clock) -> MemoryStore:
    return MemoryStore(StoreOptions(now=clock))


def brokers(store: MemoryStore, name: str) -> Brokers:
    app = app_of("redis://h/0", semaphore_broker=name)
    app.task(name="known")(test_a_setting_names_it)
    return Brokers(app, Settings.from_app(app), lambda: store)


def message(broker: str, task: str = "known", queue: str = "celery") -> Parked:
    return Parked(queue, queue, 0, broker, {"task": task}, {}, None, None, b"")


CONSUMED = frozenset({"celery"})


def test_a_process_takes_those_of_its_broker(store: MemoryStore) -> None:
    a, b = brokers(store, "a"), brokers(store, "b")
    assert a.others(consumes=True) == []
    assert b.others(consumes=True) == ["a"]
    assert a.others(consumes=True) == ["b"]
    assert (a.of_outbox, b.of_outbox) == ("a", "b")
    assert a.sends(message("a", "any", "any"), frozenset())
    assert a.sends(message("", "any", "any"), frozenset())
    assert not a.sends(message("b"), CONSUMED)


def test_a_command_names_no_broker(store: MemoryStore) -> None:
    assert brokers(store, "a").others(consumes=False) == []
    assert store.brokers() == frozenset()


def test_a_worker_that_was_long_alone_takes_those_of_a_broker_that_moved(
    store: MemoryStore, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """Only tasks that it knows, of queues that it consumes; it says so once."""
    brokers(store, "old").others(consumes=True)
    new = brokers(store, "new")
    assert new.others(consumes=True) == ["old"]
    clock.advance(BROKER_FOR_S)
    assert new.others(consumes=True) == []
    clock.advance(ALONE_S - 0.1)
    assert (new.of_outbox, new.sends(message("old"), CONSUMED)) == ("new", False)
    clock.advance(0.1)
    assert new.of_outbox is None
    assert not new.sends(message("old", task="other"), CONSUMED)
    assert not new.sends(message("old", queue="other"), CONSUMED)
    assert [new.sends(message("old"), CONSUMED) for _ in range(2)] == [True, True]
    assert [each.getMessage() for each in caplog.records] == [
        "parked tasks of broker old are sent to new: no worker has named the former for an hour"
    ]


def test_another_broker_that_returns_ends_it(store: MemoryStore, clock: Clock) -> None:
    a, b = brokers(store, "a"), brokers(store, "b")
    found = [a.of_outbox]
    a.others(consumes=True)
    clock.advance(ALONE_S)
    found.append(a.of_outbox)
    b.others(consumes=True)
    assert a.others(consumes=True) == ["b"]
    assert [*found, a.of_outbox] == ["a", None, "a"]
    clock.advance(BROKER_FOR_S)
    a.others(consumes=True)
    assert a.of_outbox == "a", "the time alone begins anew"


def test_a_worker_that_starts_first_after_a_night_takes_nothing_of_others(
    store: MemoryStore, clock: Clock
) -> None:
    brokers(store, "a").others(consumes=True)
    clock.advance(10 * BROKER_FOR_S)
    b = brokers(store, "b")
    assert b.others(consumes=True) == []
    assert not b.sends(message("a"), CONSUMED)


def test_a_queue_of_another_broker_does_not_pass_for_consumed(store: MemoryStore) -> None:
    """Both have the queue ``celery``; the workers of one broker end."""
    a, b = (ConsumedQueues(lambda: store, lambda name=name: name) for name in "ab")  # type: ignore[misc]
    a.connected(lambda: ["celery"])
    a.say()
    assert b.unconsumed(["celery", "bulk"]) == {"celery", "bulk"}
    again = ConsumedQueues(lambda: store, lambda: "a")
    assert again.unconsumed(["celery", "bulk"]) == {"bulk"}
