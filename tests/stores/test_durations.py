"""The lease of the store changes while calls are on their way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.durations import REPEATS
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis import RedisStore, connection as on_wire, runner

from .conftest import OpenAt, claim, permit_of


@pytest.fixture
def other(server: Any, open_at: OpenAt) -> RedisStore:
    return open_at(server.url)


def slowed(
    monkeypatch: pytest.MonkeyPatch, between: Callable[[], object], after: int
) -> list[list[bytes]]:
    """Let another client call after so many commands of a batch; return all batches."""
    exchanged, sent = on_wire.exchanged, list[list[bytes]]()

    def in_parts(connection: Any, commands: list[bytes]) -> list[Any]:
        sent.append(commands)
        if len(commands) < after:
            return exchanged(connection, commands)
        answers = exchanged(connection, commands[:after])
        with monkeypatch.context() as context:
            context.setattr(runner, "exchanged", exchanged)
            between()
        return answers + exchanged(connection, commands[after:])

    monkeypatch.setattr(runner, "exchanged", in_parts)
    return sent


def test_a_batch_that_ran_in_part_is_repeated_in_part(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The calls before the change have run with the lease of before, and are not made again."""
    names = [f"of{n}" for n in range(6)]
    for name in names:
        store.acquire(claim(of=name), "a")
    store.snapshot("api")  # the server knows the script
    sent = slowed(monkeypatch, lambda: other.set_lease(60.0), after=2)
    seen = list(store.snapshots(names))
    assert [each.resource for each in seen] == names
    assert [[entry.holder for entry in each.holders] for each in seen] == [["a"]] * 6
    assert list(map(len, sent)) == [6, 4]
    assert store.lease == 60.0


def test_a_script_that_the_server_does_not_know_either(
    server: Any, store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    permits = [permit_of(store.acquire(claim(of=f"of{n}"), f"a{n}")) for n in range(150)]
    with server.client() as client:
        client.script_flush()
    sent = slowed(monkeypatch, lambda: other.set_lease(60.0), after=2)
    assert store.renew(permits) == {permit.holder: Renewal.OK for permit in permits}
    assert store.lease == 60.0
    assert sent
    ends = {each.holders[0].expires_at - each.at for each in store.snapshots(["of0", "of149"])}
    assert min(ends) > 50


def test_a_lease_that_never_rests_is_an_outage(
    store: RedisStore, other: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    leases = iter(range(60, 1000))
    exchanged = on_wire.exchanged

    def after_a_change(connection: Any, commands: list[bytes]) -> list[Any]:
        with monkeypatch.context() as context:
            context.setattr(runner, "exchanged", exchanged)
            other.set_lease(float(next(leases)))
        return exchanged(connection, commands)

    store.snapshot("api")
    monkeypatch.setattr(runner, "exchanged", after_a_change)
    with pytest.raises(StoreUnavailable, match="OTHERLEASE"):
        store.snapshot("api")
    assert next(leases) == 60 + REPEATS + 1


def test_a_record_without_a_lease_takes_the_callers(server: Any, store: RedisStore) -> None:
    """Of a store that was used before it kept one."""
    store.acquire(claim(2), "a")
    with server.client() as client:
        client.hdel("{celery-semaphore}:epoch", "lease", "take_up", "calm")
    assert isinstance(store.acquire(claim(2), "b"), Permit)
    with server.client() as client:
        assert client.hget("{celery-semaphore}:epoch", "lease") == b"30000000"


@pytest.mark.parametrize("url", ["valkey", "embedded_postgres"])
def test_first_callers_at_once_agree(url: str, request: pytest.FixtureRequest) -> None:
    """Each brings another lease; all use one of them."""
    address = request.getfixturevalue(url).url
    clients = [store_from_url(address, StoreOptions(lease=10.0 + n)) for n in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda each: each.acquire(claim(8), str(id(each))), clients))
    for each in clients:
        each.snapshot("api")
    assert len({each.lease for each in clients}) == 1
    assert all(isinstance(answer, Permit) for answer in answers)
    lasts = {round(a.expires_at - a.acquired_at, 3) for a in answers if isinstance(a, Permit)}
    assert lasts == {clients[0].lease}
    for each in clients:
        each.close()
