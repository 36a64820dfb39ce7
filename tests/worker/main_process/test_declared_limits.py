"""What a worker declares, and what it says where another limit is in force."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_semaphore import Limit, LimitedTask
from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.stores.memory.store import MemoryStore
from celery_semaphore.worker.main_process.declared_limits import DeclaredLimits, limits_of


def nothing() -> None: ...


def tasks(app: Celery, *limits: Any) -> list[Any]:
    for n, limit in enumerate(limits):
        app.task(base=LimitedTask, name=f"task {n}", semaphore=[limit], shared=False)(nothing)
    return list(app.tasks.values())


@pytest.fixture
def declared(app: Celery) -> DeclaredLimits:
    return DeclaredLimits(tasks(app, Limit("a b", 5)), "worker@b")


def test_plain_limits_are_declared(app: Celery) -> None:
    limits = [Limit("a b", 5), Limit("a b", 3), Limit("a b", 4), Limit("gpu", 2)]
    keyed = [Limit("a b", 2, key=lambda: "k"), Limit("a b", 1, key=lambda: "l")]
    others = [
        Limit("called", lambda: 1),
        Limit("never", 0),
    ]
    found = limits_of(tasks(app, *limits, *keyed, *others))
    assert found == {"a%20b": 3, "gpu": 2, "a%20b//": 1}


def test_it_declares_in_its_name(
    declared: DeclaredLimits, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    declared.declare(store)
    assert store.snapshot("a%20b").declared == DeclaredLimit(5, "worker@b")
    store.declare({"a%20b": 50}, "worker@c")
    declared.declare(store)
    assert caplog.messages == []


def test_a_worker_without_limits_asks_nothing(app: Celery) -> None:
    declared = DeclaredLimits(tasks(app), "worker@b")
    declared.declare(None)  # type: ignore[arg-type]


def test_another_limit_is_told_once(
    declared: DeclaredLimits, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    for by in ("worker@c", "worker@d"):
        store.declare({"a%20b": 3}, by)
        declared.declare(store)
    store.declare({"a%20b": 1}, "7@host")
    declared.declare(store)
    store.forget()
    store.declare({"a%20b": 1}, "8@host")  # as a script that runs again and again
    declared.declare(store)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [text.partition(":")[0] for text in told] == ["semaphore 'a b'"] * 2
    assert "limit 5 here, 3 declared by worker@c: " in told[0]
    assert "semaphore limit 'a b' N`" in told[0]
    assert "limit 5 here, 1 declared by 7@host: " in told[1]


def test_another_limit_of_all_keys_is_told(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    store, here = (
        MemoryStore(),
        DeclaredLimits(tasks(app, Limit("a b", 5, key=lambda: "k")), "worker@b"),
    )
    store.declare({"a%20b//": 3}, "worker@c")
    here.declare(store)
    (told,) = caplog.messages
    assert "semaphore 'a b' at each key: limit 5 here, 3 declared by worker@c: " in told


def test_the_limit_of_an_operator_needs_no_warning(
    declared: DeclaredLimits, caplog: pytest.LogCaptureFixture
) -> None:
    store = MemoryStore()
    store.set_limit(3, "a%20b")
    store.declare({"a%20b": 1}, "7@host")
    declared.declare(store)
    assert caplog.messages == []
