"""Several releases of the same claims in one call to PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.store import HandedOn, Release
from celery_semaphore.errors import SemaphoreError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql.link import Link
from tests.support.postgres import PostgresServer

CLAIMS, OTHER = (Claim("api", None, 9),), (Claim("other", None, 9),)
SOME = [Release(f"h{n}", CLAIMS) for n in range(5)]


@pytest.fixture
def store(embedded_postgres: PostgresServer) -> Iterator[Any]:
    store = store_from_url(embedded_postgres.url, StoreOptions())
    for n in range(5):
        store.acquire(CLAIMS, f"h{n}")
    yield store
    store.close()


@pytest.fixture
def calls(store: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The functions that are called."""
    called: list[str] = []
    call = Link.call

    def note(self: Link, function: str, parameters: Any) -> Any:
        called.append(function.rpartition("v1_")[2].strip('"'))
        return call(self, function, parameters)

    monkeypatch.setattr(Link, "call", note)
    return called


def test_they_take_one_call(store: Any, calls: list[str]) -> None:
    assert store.call_all(SOME) == [HandedOn()] * 5
    assert calls == ["release_each"]
    assert not store.snapshot("api").holders


def test_others_are_made_by_themselves(store: Any, calls: list[str]) -> None:
    assert store.call_all([SOME[0], Release("h1", OTHER)]) == [HandedOn()] * 2
    assert store.call_all(SOME[2:3]) == [HandedOn()]
    assert calls == ["release"] * 3


def test_an_error_may_be_of_one_of_them(
    store: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps none of the others."""
    run = store._runner.run

    def fails(operation: str, *given: Any) -> Any:
        if operation == "release_each" or given[0] == "h1":
            raise SemaphoreError("a broken row")
        return run(operation, *given)

    monkeypatch.setattr(store._runner, "run", fails)
    answers = store.call_all(SOME)
    assert [isinstance(each, SemaphoreError) for each in answers] == [False, True, *[False] * 3]
    assert [held.holder for held in store.snapshot("api").holders] == ["h1"]


def test_a_store_that_does_not_answer_is_asked_once(
    store: Any, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any) -> Any:
        calls.append("away")
        raise StoreUnavailable("away")

    monkeypatch.setattr(store._runner, "run", away)
    for some in (SOME, [SOME[0], Release("h1", OTHER)]):
        calls.clear()
        assert all(isinstance(each, StoreUnavailable) for each in store.call_all(some))
        assert calls == ["away"]
