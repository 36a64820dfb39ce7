"""What the room that waits keep costs on servers: row H12 of docs/maintain/architecture.md."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import pytest

from celery_semaphore.core.store import Store
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql import PostgresStore
from celery_semaphore.stores.postgresql.url import parameters_from_url
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import admitted, claim, why
from tests.conformance.hand_on.kept_room import API, keeping
from tests.conformance.sessions.session_calls import S, held
from tests.conformance.suite import LEASE, TAKE_UP
from tests.support.postgres import PostgresServer
from tests.support.servers import RedisServer

from .conftest import OpenAt

FEW, MANY = 10, 1000
LEDGER = "{celery-semaphore}:api:ledger"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(server: RedisServer, open_at: OpenAt, clock: Clock) -> RedisStore:
    return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP)


def calls_and_moves(
    store: Any, clock: Clock, monkeypatch: pytest.MonkeyPatch, pairs: int, limit: int
) -> tuple[int, int]:
    """Return how many calls a release makes, and how many waits it moves; single waits stand behind these pairs."""
    names = [f"{name}-{pairs}-{limit}" for name in "ab"]
    one, other = (claim(limit, of=name) for name in names)
    store.ask(S)
    for n in range(limit):
        admitted(store, one, f"one {n} of {names}")
        admitted(store, other, f"other {n} of {names}")
    for n in range(pairs):
        held(store, f"pair {n:04} of {names}", S, one + other)
        clock.advance(0.000_001)
    for each in (one, other):
        held(store, f"single of {each}", S, each)
    clock.advance(1)  # so long permits are held
    calls, ask = [0], store._link.ask

    def counted(*args: Any, **named: Any) -> Any:
        calls[0] += 1
        return ask(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(store._link, "ask", counted)
        store.release(f"one 0 of {names}", one)
    return calls[0], store.snapshot(names[1]).waiting - 1


def examine(store: Store, clock: Clock, patch: pytest.MonkeyPatch, limit: int) -> None:
    """Move one wait, whatever stands behind it: it keeps the room that the next one would find."""
    few, many = (calls_and_moves(store, clock, patch, pairs, limit) for pairs in (FEW, MANY))
    assert few == many
    assert few[1] == 1


@pytest.mark.parametrize("limit", [1, 10])
def test_a_release_moves_one_of_many_on_redis(
    store: RedisStore, clock: Clock, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    examine(store, clock, monkeypatch, limit)


@pytest.mark.parametrize("limit", [1, 10])
def test_a_release_moves_one_of_many_on_postgresql(
    postgres: PostgresServer,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    limit: int,
) -> None:
    options = StoreOptions(now=clock, lease=LEASE, take_up=TAKE_UP, timeout=5.0)
    with closing(PostgresStore(parameters_from_url(postgres.url, options), options)) as store:
        examine(store, clock, monkeypatch, limit)


def test_a_new_task_takes_the_long_way_where_room_is_kept(store: RedisStore, clock: Clock) -> None:
    """The short way of acquire looks at waits of the resource, and there is none: the pair waits elsewhere."""
    keeping(store, clock)
    assert store.snapshot("api").waiting == 0
    assert why(store, API, "b") == "saturated"


def test_kept_room_that_is_over_is_deleted(
    server: RedisServer, store: RedisStore, clock: Clock
) -> None:
    """Else each call at the resource would take the long way for ever."""
    keeping(store, clock)
    with server.client() as client:
        assert client.hexists(LEDGER, "kept")
        clock.advance(3.0)
        admitted(store, API, "b")
        assert not client.hexists(LEDGER, "kept")
