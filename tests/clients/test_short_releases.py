"""Releases of the common case are short calls; what they cannot decide, long ones do."""

from __future__ import annotations

import re

import pytest

from celery_semaphore import Semaphore
from clients.scripts import SHORT, digest, script
from tests.conftest import StartServer
from tests.support.calling import SOON
from tests.support.process import wait_until
from tests.support.servers import RedisServer, ValkeyServer

from .arrivals import calls
from .caller import Caller

pytestmark = pytest.mark.timeout(400)
RELEASE = digest(script(SHORT).source)


def made(server: RedisServer, caller: Caller) -> list[bool]:
    """Acquire and release; return of each call of a script whether it was the short release."""
    with calls(server) as commands:
        caller.acquire()
        caller.release()
    found = (re.match(r"EVALSHA (\w+)", command) for command in commands)
    return [each[1] == RELEASE for each in found if each]


def warm(server: RedisServer, caller: Caller) -> None:
    """Let the server know the scripts, and that nothing else is to be noted of this caller."""
    wait_until(lambda: made(server, caller) == [False, True], 2 * SOON, "a release is short")


def test_it_frees_what_others_take(valkey: ValkeyServer, caller: Caller) -> None:
    caller.open(valkey.url, limit=1)
    warm(valkey, caller)
    first = caller.acquire()["token"]
    caller.release()
    api = Semaphore("api", 1, url=valkey.url)
    permit = api.acquire(timeout=0)
    assert permit.token > first
    api.release(permit)
    assert caller.ask("available", at="api") == 1


def test_one_that_hands_on_is_long(valkey: ValkeyServer, caller: Caller) -> None:
    caller.open(valkey.url, limit=1)
    warm(valkey, caller)
    caller.acquire()
    waits = caller.begin("acquire", **{"at": "api", "as": "b"})
    api = Semaphore("api", 1, url=valkey.url)
    wait_until(lambda: api._seen().waiting == 1, SOON)
    caller.release()
    assert waits.result(SOON)["token"]


def test_a_weight_is_never_short(valkey: ValkeyServer, caller: Caller) -> None:
    caller.open(valkey.url, limit=5, weight=3)
    for _ in range(3):
        assert not any(made(valkey, caller))
    caller.acquire()
    assert caller.ask("available", at="api") == 2


def test_they_are_short_again_in_another_epoch(start_valkey: StartServer, caller: Caller) -> None:
    server = start_valkey()
    caller.open(server.url, limit=1, leaseMs=5000)
    warm(server, caller)
    server.restart(keep_data=False)
    warm(server, caller)
