"""What a client owes to the others: docs/reference/protocol.md."""

from __future__ import annotations

import time
from functools import partial

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.redis import RedisStore
from tests.support.calling import SOON
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .caller import Caller
from .conftest import OpenStore, StartCaller

pytestmark = pytest.mark.timeout(400)
LEDGER = "{celery-semaphore}:api:ledger"
AN_HOUR = 3_600_000_000  # microseconds
LEASE_MS = 2000
LONG_LEASE_S = 120.0
SWEPT_S = 20.0  # longer than a grant and a sweep, on a busy machine too; acquires retry after 40 s
MANY = 150  # waits: more than one call hands on


def in_line(valkey: ValkeyServer, caller: Caller, store: Semaphore) -> float:
    """Let a call wait, of which its process expects that it takes an hour; return when it asked for its grant."""
    with valkey.client() as client:
        client.hset(LEDGER, mapping={"mean": AN_HOUR, "latest": AN_HOUR})
    caller.begin("acquire", **{"at": "api", "as": "b"})
    wait_until(lambda: store._seen().waiting == 1, SOON)
    time.sleep(0.3)  # it has asked
    return time.monotonic()


def test_a_release_tells_its_own_process(valkey: ValkeyServer, caller: Caller) -> None:
    """It need not ask, which it would do up to a second later."""
    caller.open(valkey.url, limit=1).acquire()
    store = Semaphore("api", 1, url=valkey.url)
    in_line(valkey, caller, store)
    since = time.monotonic()
    caller.release()
    wait_until(lambda: _is_taken_up(store), SOON)
    assert time.monotonic() - since < 0.4


def _is_taken_up(store: Semaphore) -> bool:
    return [held.granted for held in store._seen().holders] == [False]


def test_a_question_each_second(valkey: ValkeyServer, caller: Caller) -> None:
    """However long the turn is expected to take."""
    api = Semaphore("api", 1, url=valkey.url)
    permit = api.acquire(timeout=0)
    caller.open(valkey.url, limit=1)
    since = in_line(valkey, caller, api)
    api.release(permit)
    wait_until(lambda: _is_taken_up(api), SOON)
    assert time.monotonic() - since < 4


def test_one_that_holds_permits_reaps_for_all(
    valkey: ValkeyServer, start_caller: StartCaller, open_store: OpenStore
) -> None:
    """No other process is there to end what another one left at another semaphore."""
    dies, lives = start_caller(), start_caller()
    dies.open(valkey.url, "gpu", limit=1, leaseMs=LEASE_MS).acquire()
    lives.open(valkey.url, limit=1, leaseMs=LEASE_MS).acquire()
    dies.kill()
    with valkey.client() as client:
        assert client.zcard("{celery-semaphore}:gpu:holders") == 1
        wait_until(lambda: not client.zcard("{celery-semaphore}:gpu:holders"), SOON)
    assert open_store(valkey.url).processes()[1] >= 1


def test_one_that_waits_reaps_for_all(
    valkey: ValkeyServer, start_caller: StartCaller, open_store: OpenStore
) -> None:
    """A grant of a process that was killed idles until it has ended, and no longer."""
    store, claims = open_store(valkey.url, lease=LONG_LEASE_S), [Claim("api", None, 1)]
    store.acquire(claims, "a")
    dies, lives = start_caller(), start_caller()
    for n, each in enumerate((dies, lives), 1):
        each.open(valkey.url, limit=1, leaseMs=LONG_LEASE_S * 1000)
        acquired = each.begin("acquire", **{"at": "api", "as": "a"})
        wait_until(partial(_waits, store, n), SOON)
    dies.kill()
    since = time.monotonic()
    store.release("a", claims)
    acquired.result(SWEPT_S)
    assert time.monotonic() - since > 1.0, "the grant of the dead was not waited for"


def _waits(store: RedisStore, many: int) -> bool:
    return store.snapshot("api").waiting == many


def test_a_broken_record_stops_no_reaping(valkey: ValkeyServer, start_caller: StartCaller) -> None:
    """It has ended first, and nothing is handed on there."""
    dies, lives = start_caller(), start_caller()
    for name in ("gpu", "ssd"):
        dies.open(valkey.url, name, at=name, limit=1, leaseMs=LEASE_MS)
        dies.acquire(at=name, **{"as": name})
    lives.open(valkey.url, limit=1, leaseMs=LEASE_MS).acquire()
    dies.kill()
    with valkey.client() as client:
        client.set("{celery-semaphore}:gpu:holders", "broken")
        wait_until(lambda: not client.zcard("{celery-semaphore}:ssd:holders"), SOON)
        wait_until(lambda: "WRONGTYPE" in "".join(lives.ask("warnings")), SOON)


def test_a_hand_on_is_continued(
    valkey: ValkeyServer, caller: Caller, open_store: OpenStore
) -> None:
    """Before the release resolves, all that has room is granted."""
    store, claims = open_store(valkey.url), [Claim("api", None, MANY)]
    caller.open(valkey.url, limit=MANY, weight=MANY).acquire()
    store.ask("session")
    wait = Wait(Kind.BLOCK, shortest=10.0, longest=10.0, session="session")
    acquire = partial(store.acquire, claims, wait=wait)
    assert all(isinstance(acquire(f"python {n}"), Refusal) for n in range(MANY))
    caller.release()
    holders = store.snapshot("api").holders
    assert (len(holders), all(held.granted for held in holders)) == (MANY, True)


def test_a_lost_connection_is_made_again(valkey: ValkeyServer, caller: Caller) -> None:
    """No call of one's own notices."""
    caller.open(valkey.url, limit=1)
    for _ in range(3):
        assert caller.ask("available", at="api") == 1
        with valkey.client() as client:
            client.execute_command("CLIENT", "KILL", "SKIPME", "yes")
    assert caller.ask("warnings") == []


def test_a_program_may_release_twice(valkey: ValkeyServer, caller: Caller) -> None:
    """The second time does nothing, also to who has the permit now."""
    caller.open(valkey.url, limit=1).acquire()
    caller.release()
    api = Semaphore("api", 1, url=valkey.url)
    api.acquire(timeout=0)
    caller.release()
    assert api.available() == 0
