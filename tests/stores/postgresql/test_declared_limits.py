"""Workers declare while other calls keep their locks for long."""

from __future__ import annotations

import time
from threading import Thread
from typing import Any

import pytest

from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.stores.postgresql import store as store_module
from tests.conformance.acquisition import admitted, claim
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until

from .conftest import OpenAt
from .test_sessions import busy

LOCKED = "SELECT pg_advisory_xact_lock(celery_semaphore.v1_lock_key('stuck'))"
LIMITS = dict.fromkeys(["api", "stuck", "disk"], 5)


def test_a_stuck_resource_stops_no_other(server: PostgresServer, open_at: OpenAt) -> None:
    """Let the locks of the others come before its own, and after it."""
    store, caller = open_at(server.url, timeout=3.0), open_at(server.url)
    others = {name: DeclaredLimit(5, "w") for name in ("api", "disk")}
    with busy(server, LOCKED):
        begun = time.monotonic()
        assert store.declare(LIMITS, "w") == others
        for name in others:
            admitted(caller, claim(5, of=name), "a")
        assert time.monotonic() - begun < 1.0
    assert store.declare(LIMITS, "w") == dict.fromkeys(LIMITS, DeclaredLimit(5, "w"))


def test_one_in_much_use_is_waited_for_without_another_lock(
    server: PostgresServer, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let it wait for long, to see what it keeps from others meanwhile."""
    monkeypatch.setattr(f"{store_module.__name__}.SHORTEST_MS", 9_000)
    store, caller = open_at(server.url, timeout=10.0), open_at(server.url)
    found: list[Any] = []
    declares = Thread(target=lambda: found.append(store.declare(LIMITS, "w")))
    with busy(server, LOCKED):
        declares.start()
        query = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        wait_until(lambda: server.run(query) == [(1,)], 5, "it waits")
        for name in ("api", "disk"):
            admitted(caller, claim(50, of=name), "a")
            assert caller.snapshot(name).limit == 5
    declares.join()
    assert found == [dict.fromkeys(LIMITS, DeclaredLimit(5, "w"))]
