"""A permit of one language counts in the other."""

from __future__ import annotations

import threading
from typing import Any, Protocol

import pytest

from celery_semaphore import PermitLost, Semaphore, SemaphoreTimeout
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from tests.support.calling import SOON
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from .caller import Caller, CallerError
from .conftest import OpenStore

pytestmark = pytest.mark.timeout(400)


class Side(Protocol):
    """A program in one language, on a semaphore with limit 2."""

    def acquire(self, timeout: float) -> int: ...
    def release(self) -> None: ...
    def available(self) -> int: ...
    def holders(self) -> list[int]: ...


class InPython:
    def __init__(self, url: str) -> None:
        self.semaphore = Semaphore("api", 2, url=url)
        self.permits: list[Permit] = []

    def acquire(self, timeout: float) -> int:
        self.permits.append(self.semaphore.acquire(timeout))
        return self.permits[-1].token

    def release(self) -> None:
        self.semaphore.release(self.permits.pop(0))

    def available(self) -> int:
        return self.semaphore.available()

    def holders(self) -> list[int]:
        return [held.token for held in self.semaphore.holders()]


class InNode:
    def __init__(self, url: str, caller: Caller) -> None:
        self.caller = caller.open(url, limit=2)
        self.names: list[str] = []
        self.count = 0

    def acquire(self, timeout: float) -> int:
        self.count += 1
        name = str(self.count)
        try:
            found: int = self.caller.acquire(**{"as": name}, timeoutMs=timeout * 1000)["token"]
        except CallerError as error:
            kind = SemaphoreTimeout if error.name == "SemaphoreTimeout" else AssertionError
            raise kind(error.message) from error
        self.names.append(name)
        return found

    def release(self) -> None:
        self.caller.release(self.names.pop(0))

    def available(self) -> int:
        found: int = self.caller.ask("available", at="api")
        return found

    def holders(self) -> list[int]:
        return [held["token"] for held in self.caller.ask("holders", at="api")]


@pytest.fixture(params=["node first", "python first"])
def sides(request: pytest.FixtureRequest, valkey: ValkeyServer, caller: Caller) -> list[Side]:
    found: list[Side] = [InNode(valkey.url, caller), InPython(valkey.url)]
    return found if request.param == "node first" else found[::-1]


class TestPermits:
    def test_a_permit_counts(self, sides: list[Side]) -> None:
        one, other = sides
        tokens = [one.acquire(0), other.acquire(0)]
        assert tokens == sorted(set(tokens))
        for side in sides:
            assert (side.available(), side.holders()) == (0, tokens)
            with pytest.raises(SemaphoreTimeout, match="2 of 2 in use, 0 waiting"):
                side.acquire(0)
        one.release()
        assert (one.available(), other.available()) == (1, 1)
        assert other.acquire(0) > tokens[1]
        assert one.holders() == other.holders()

    def test_a_release_hands_on(self, sides: list[Side]) -> None:
        one, other = sides
        one.acquire(0)
        one.acquire(0)
        got = list[int]()
        thread = threading.Thread(target=lambda: got.append(other.acquire(30)))
        thread.start()
        store = Semaphore("api", 2, url=_url_of(sides))
        wait_until(lambda: store._seen().waiting == 1, SOON)
        one.release()
        thread.join(SOON)
        assert got == other.holders()[1:]


def _url_of(sides: list[Side]) -> str:
    (python,) = [side for side in sides if isinstance(side, InPython)]
    found: Any = python.semaphore._store
    given = found._link._pool.connection_kwargs
    return f"redis://{given['host']}:{given['port']}/0"


@pytest.mark.parametrize(
    ("name", "key"), [("a b/c", None), ("Größe", "№ 1"), ("\U0001f600" * 50, "~%41"), ("api", "")]
)
def test_a_name_is_the_same_one(
    valkey: ValkeyServer, caller: Caller, name: str, key: str | None
) -> None:
    caller.open(valkey.url, name, limit=1, key=key)
    caller.acquire(timeoutMs=0)
    with pytest.raises(SemaphoreTimeout, match="1 of 1 in use"):
        Semaphore(name, 1, key=key, url=valkey.url).acquire(timeout=0)


def test_weights(valkey: ValkeyServer, caller: Caller) -> None:
    caller.open(valkey.url, limit=5, weight=3)
    caller.acquire(timeoutMs=0)
    api = Semaphore("api", 5, url=valkey.url)
    assert api.available() == 2
    api.acquire(timeout=0)
    with pytest.raises(CallerError, match="4 of 5 in use"):
        caller.acquire(timeoutMs=0)


class TestDeclaredLimits:
    def test_a_limit_that_is_not_known(self, valkey: ValkeyServer, caller: Caller) -> None:
        caller.open(valkey.url)
        with pytest.raises(
            CallerError, match=r'^SemaphoreError: no limit is known yet .*"api": give'
        ):
            caller.acquire()
        Semaphore("api", 1, url=valkey.url).acquire(timeout=0)
        with pytest.raises(CallerError, match="1 of 1 in use"):
            caller.acquire(timeoutMs=0)

    def test_the_smallest_one_holds(self, valkey: ValkeyServer, caller: Caller) -> None:
        caller.open(valkey.url, limit=1)
        caller.acquire(timeoutMs=0)
        api = Semaphore("api", 5, url=valkey.url)
        with pytest.raises(SemaphoreTimeout, match="1 of 1 in use"):
            api.acquire(timeout=0)


class TestLease:
    def test_that_of_the_store_is_in_force(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        store = open_store(valkey.url, lease=2.0)
        store.acquire([Claim("other", None, 1)], "python")
        caller.open(valkey.url, limit=1)
        caller.acquire()
        (held,) = store.snapshot("api").holders
        assert held.expires_at - held.acquired_at == 2.0
        (warning,) = caller.ask("warnings")
        assert "leaseMs is 30000 here, but the store keeps 2000" in warning
        later = caller.ask("holders", at="api")[0]["expiresAt"]
        wait_until(lambda: caller.ask("holders", at="api")[0]["expiresAt"] > later, SOON)

    def test_python_obeys_the_first_caller(
        self, valkey: ValkeyServer, caller: Caller, open_store: OpenStore
    ) -> None:
        caller.open(valkey.url, limit=1, leaseMs=5000, takeUpMs=7000)
        caller.acquire()
        store = open_store(valkey.url)
        store.snapshot("api")
        assert store.in_force == (5_000_000, 7_000_000)


def test_python_loses_what_node_takes_away(valkey: ValkeyServer, caller: Caller) -> None:
    """The tombstone of a holder holds for both."""
    api = Semaphore("api", 1, url=valkey.url)
    permit = api.acquire(timeout=0)
    api._store.release(permit.holder, permit.claims)
    assert caller.open(valkey.url, limit=1).acquire()["token"] > permit.token
    with pytest.raises(PermitLost):
        api.extend(permit)
