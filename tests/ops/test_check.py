"""What `semaphore check` finds at a store, and how it says that."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import pytest
from celery import Celery

from celery_semaphore import LimitedTask
from celery_semaphore.core.decision import Decision
from celery_semaphore.core.key import resource_name
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.ops.check import StoreCheck, examined, report_of, told
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis.facts import FORGETS, MAY_FORGET
from celery_semaphore.testing.clock import Clock
from tests.stores.conftest import claim
from tests.support.postgres import PostgresServer
from tests.support.rights import PASSWORD, as_user
from tests.support.servers import RedisServer
from tests.worker.conftest import Site

from .conftest import Command

PARK: dict[str, Any] = {"semaphore_on_saturated": "park"}
StartServer = Callable[..., RedisServer]


def check(url: str, *, parks: bool = False) -> StoreCheck:
    with closing(store_from_url(url, StoreOptions(timeout=2.0))) as store:
        return examined(store, parks=parks)


def test_a_server_of_redis(valkey: RedisServer) -> None:
    url = as_user(valkey, database=1)
    found = check(url)
    assert (found.usable, found.warnings, found.errors) == (True, [MAY_FORGET], [])
    assert found.facts
    assert found.facts.server.startswith("Valkey ")
    assert found.facts.address == f"127.0.0.1:{valkey.port}/1 as shop"
    assert (found.facts.role, found.facts.eviction) == ("primary, 0 replica(s)", "noeviction")
    assert (found.facts.format, found.facts.tables) == (None, None)
    assert PASSWORD not in told(found)
    assert "no records yet" in told(found)
    with closing(store_from_url(url)) as store:
        assert isinstance(store.acquire(claim(), "a"), Permit)
    again = check(url)
    assert again.facts
    assert again.facts.format == 1


def told_of_operators(store: MemoryStore) -> list[str]:
    return [
        each for each in examined(store, parks=False).warnings if each.startswith("semaphore '")
    ]


def test_what_operators_decided_long_ago() -> None:
    clock = Clock()
    store = MemoryStore(StoreOptions(now=clock))
    store.set_limit(3, "api")
    store.pause(resource_name("api", "\n"))
    clock.advance(1.0)
    store.pause("idle", 100_000.0)
    clock.advance(86_400.0)
    assert told_of_operators(store) == [
        "semaphore 'api' has limit 3, set by an operator 24.0 h ago; `limit --clear` clears it.",
        "semaphore 'api' at key '\\n' has been paused for 24.0 h, until it is resumed; `resume` ends that.",
    ]
    clock.advance(1.0)
    assert told_of_operators(store)[2:] == [
        "semaphore 'idle' has been paused for 24.0 h, for another 3.8 h; `resume` ends that."
    ]


def test_redis_is_named(redis: RedisServer) -> None:
    found = check(redis.url)
    assert found.facts
    assert found.facts.server.startswith("Redis ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"appendonly": "yes"}, "AOF, appendfsync everysec"),
        ({"save": "3600 1"}, "no AOF, save points 3600 1"),
        ({}, "none: neither an AOF nor save points"),
    ],
)
def test_durability(start_valkey: StartServer, options: dict[str, str], said: str) -> None:
    server = start_valkey(**options)
    found = check(server.url)
    assert found.facts
    assert found.facts.durability == said
    assert found.warnings == ([] if options else [FORGETS])
    hidden = check(as_user(server))
    assert hidden.facts
    if "appendonly" in options:  # INFO tells that
        assert (hidden.facts.durability, hidden.warnings) == ("AOF, appendfsync not told", [])
    else:
        assert (hidden.facts.durability, hidden.warnings) == (None, [MAY_FORGET])


def test_what_would_evict_permits_is_shown_though_it_is_refused(start_valkey: StartServer) -> None:
    found = check(start_valkey(maxmemory_policy="allkeys-lru").url)
    assert not found.usable
    assert found.facts
    assert found.facts.eviction == "allkeys-lru"
    assert "Error: The store's maxmemory-policy is allkeys-lru" in told(found)
    assert told(found).endswith("No worker can use this store.")


def test_no_answer() -> None:
    found = check(f"redis://:{PASSWORD}@127.0.0.1:1/0")
    assert (found.usable, found.facts) == (False, None)
    assert PASSWORD not in told(found)


def test_parked_tasks_need_a_disk(valkey: RedisServer) -> None:
    assert not any("Parked" in warning for warning in check(valkey.url).warnings)
    parked, *_ = check(valkey.url, parks=True).warnings
    assert "Parked tasks lie in this server" in parked
    assert "appendonly yes" in parked


def test_a_newer_format_is_told(valkey: RedisServer) -> None:
    with valkey.client() as client:
        client.hset("{celery-semaphore}:epoch", "format", "9")
    found = check(valkey.url)
    assert found.usable
    assert any("reads format 9" in warning for warning in found.warnings)
    assert found.facts
    assert found.facts.format == 9


def test_a_server_of_postgresql(postgres: PostgresServer) -> None:
    found = check(postgres.url)
    assert (found.usable, found.warnings) == (True, [])
    assert found.facts
    assert found.facts.server.startswith("PostgreSQL ")
    at = f"127.0.0.1:{postgres.port}/postgres as postgres, schema celery_semaphore"
    assert found.facts.address == at
    assert (found.facts.role, found.facts.tables, found.facts.format) == ("primary", 1, None)
    assert "fsync off, synchronous_commit on" in str(found.facts.durability)
    assert "tables      version 1\n" in told(found)
    assert "eviction" not in told(found)


@pytest.mark.parametrize(("commit", "notes"), [("on", 1), ("local", 0)])
def test_synchronous_standbys(postgres: PostgresServer, commit: str, notes: int) -> None:
    """They are named and absent: parking would wait for them."""
    given = f"-c%20synchronous_commit%3D{commit}"
    postgres.run("ALTER SYSTEM SET synchronous_standby_names = 's1'", "SELECT pg_reload_conf()")
    try:
        found = check(f"{postgres.url}?options={given}")
    finally:
        postgres.run("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()")
    assert found.usable
    assert len(found.warnings) == notes
    assert all("synchronous_commit = 'local'" in warning for warning in found.warnings)


def test_a_store_without_tables(postgres: PostgresServer) -> None:
    with closing(store_from_url(postgres.url, StoreOptions(prefix="elsewhere"))) as store:
        found = examined(store, parks=False)
    assert not found.usable
    assert "semaphore install" in told(found)
    assert "tables      not installed\n" in told(found)


def test_memory() -> None:
    found = examined(MemoryStore(), parks=False)
    assert found.usable
    assert "memory of this process" in told(found)


def test_a_store_without_facts() -> None:
    """As one of another package may be."""

    class Plain:
        def check(self, *, parks: bool) -> list[str]:
            return [f"parks: {parks}"]

        def decisions(self) -> dict[str, Decision]:
            return {}

    found = examined(cast("Store", Plain()), parks=True)
    assert found.warnings == ["parks: True"]
    assert (found.usable, found.facts) == (True, None)
    assert told(found).startswith("release ")


def test_the_command(site: Site) -> None:
    said = Command(site.env(PARK))("check")
    assert said.code == 0, said
    assert "server      Valkey " in said.out
    assert "Warning: Parked tasks lie in this server" in said.out
    assert f"Warning: {FORGETS}" in said.out
    assert said.out.endswith("Workers can use this store; 2 warning(s).\n")


def test_the_command_at_a_server_that_is_away(site: Site) -> None:
    env = site.env() | {"STORE": f"redis://:{PASSWORD}@127.0.0.1:1/0"}
    said = Command(env)("check", "--json")
    assert said.code == 1
    assert json.loads(said.out)["usable"] is False
    assert PASSWORD not in said.out + said.err


def test_a_task_with_which_no_worker_starts() -> None:
    app = Celery("shop", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"

    @app.task(base=LimitedTask, semaphore="api", limit=5, on_saturated="prak", shared=False)
    def call() -> None: ...

    found = report_of(app)
    assert (found.usable, found.errors, len(found.task_errors)) == (False, [], 1)
    assert told(found).endswith("\nNo worker starts with these tasks.")


def test_the_command_with_a_url_that_cannot_be_read(site: Site) -> None:
    env = site.env() | {"STORE": f"redis+cluster://:{PASSWORD}@127.0.0.1:1/1"}
    said = Command(env)("check", "--json")
    assert said.code == 1
    found = json.loads(said.out)
    (error,) = found["setting_errors"]
    assert "database 0 only" in error
    assert (found["errors"], found["task_errors"]) == ([], [])
    assert Command(env)("check").out.endswith("\nNo worker starts with these settings.\n")
    assert PASSWORD not in said.out + said.err
