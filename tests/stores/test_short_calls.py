"""Short calls of acquire and release leave what long ones leave: the same calls on two databases."""

from __future__ import annotations

import os
import random
import time

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.testing.clock import Clock
from tests.support.other_run import change_run
from tests.support.servers import RedisServer
from tests.support.variants import also

from .conftest import OpenAt, claim, permit_of, refusal_of
from .life import LEASE, TAKE_UP, Life
from .quiet_life import QuietLife, Shorts, Sides


@pytest.mark.parametrize("calls", [500, *also(4_000)])
@pytest.mark.parametrize(("kind", "least"), [(QuietLife, 0.3), (Life, 0.001)])
def test_they_leave_the_same(
    server: RedisServer, sides: Sides, kind: type[Life], least: float, calls: int
) -> None:
    clock = Clock()
    both, shorts = sides(clock)
    life = kind(both, clock, random.Random(server.name))
    for _ in range(calls):
        life.go_on()
    assert least * shorts.tried < shorts.sufficed < shorts.tried


class TestCommonCase:
    """A short call suffices, whatever the store has been through."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock()

    @pytest.fixture
    def store(self, server: RedisServer, open_at: OpenAt, clock: Clock) -> RedisStore:
        return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP)

    @pytest.fixture
    def shorts(self, store: RedisStore, monkeypatch: pytest.MonkeyPatch) -> Shorts:
        return Shorts(store, monkeypatch)

    def suffice(self, store: RedisStore, shorts: Shorts, claims: list[Claim]) -> None:
        """Make a pair that may be long, then one that must be short."""
        for _ in range(2):
            holder, before = os.urandom(4).hex(), shorts.sufficed
            permit_of(store.acquire(claims, holder))
            store.release(holder, claims)
        assert shorts.sufficed - before == 2

    def test_of_no_limit_but_that_of_an_operator(self, store: RedisStore, shorts: Shorts) -> None:
        store.set_limit(1, "api")
        self.suffice(store, shorts, [Claim("api", None, None)])

    @pytest.mark.parametrize("limit", [None, 1, 5])
    def test_of_a_limit(self, store: RedisStore, shorts: Shorts, limit: int | None) -> None:
        permit_of(store.acquire(claim(3), "before"))
        store.release("before", claim(3))
        self.suffice(store, shorts, [Claim("api", None, limit if limit != 5 else 3)])

    @pytest.mark.parametrize("name", ["api", "api/eu"])
    def test_of_a_limit_of_an_operator(self, store: RedisStore, shorts: Shorts, name: str) -> None:
        store.set_limit(1, name)
        self.suffice(store, shorts, [Claim("api", "eu", 5)])

    def test_of_a_limit_for_all_keys(self, store: RedisStore, shorts: Shorts) -> None:
        store.declare({"api//": 2}, "a worker")
        self.suffice(store, shorts, [Claim("api", "eu", 5)])

    def test_after_a_pause(self, store: RedisStore, shorts: Shorts, clock: Clock) -> None:
        store.pause("api", 1.0)
        clock.advance(1.1)
        self.suffice(store, shorts, claim())

    def test_beside_others(self, store: RedisStore, shorts: Shorts) -> None:
        permit_of(store.acquire(claim(2), "a"))
        self.suffice(store, shorts, claim(2))

    def test_after_a_grace(
        self, server: RedisServer, store: RedisStore, shorts: Shorts, clock: Clock
    ) -> None:
        permit_of(store.acquire(claim(2), "a"))
        with server.client() as client:
            change_run(client, "before")
        assert refusal_of(store.acquire(claim(2), "b")).reason is Reason.RECOVERING
        store.release("b", claim(2))
        clock.advance(LEASE * 2 / 3)
        self.suffice(store, shorts, claim(2))

    def test_after_a_silence(self, store: RedisStore, shorts: Shorts, clock: Clock) -> None:
        permit_of(store.acquire(claim(2), "a"))
        clock.advance(LEASE)
        store.reap()
        clock.advance(LEASE * 2 / 3)
        self.suffice(store, shorts, claim(2))

    @pytest.mark.parametrize("step", [LEASE / 100, LEASE / 2])
    def test_after_the_clock_stepped_back(
        self, store: RedisStore, shorts: Shorts, clock: Clock, step: float
    ) -> None:
        permit_of(store.acquire(claim(2), "a"))
        clock.advance(-step)
        self.suffice(store, shorts, claim(2))

    def test_with_another_lease(self, store: RedisStore, shorts: Shorts, clock: Clock) -> None:
        permit_of(store.acquire(claim(2), "a"))
        store.set_lease(7.5)
        for _ in range(4):  # so long a window of the lease before may last
            clock.advance(LEASE / 3)
            store.reap()
        self.suffice(store, shorts, claim(2))

    def test_after_the_server_has_forgotten_the_scripts(
        self, server: RedisServer, store: RedisStore, shorts: Shorts
    ) -> None:
        self.suffice(store, shorts, claim())
        with server.client() as client:
            client.script_flush()
        self.suffice(store, shorts, claim())

    def test_by_a_message(self, store: RedisStore, shorts: Shorts) -> None:
        for n in range(3):
            before = shorts.sufficed
            message = MessageId(f"t:{n}")
            permit_of(store.acquire(claim(), f"t:{n}", Wait(Kind.REQUEUE), message))
            store.release(f"t:{n}", claim(), message)
        assert shorts.sufficed - before == 2


def test_the_server_writes_no_zeros_before_the_microseconds_of_a_second(
    server: RedisServer, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_at(server.url, lease=600.0)
    shorts = Shorts(store, monkeypatch)
    deadline, was_seen = time.monotonic() + 60, False
    with server.client() as client:
        while not was_seen:
            assert time.monotonic() < deadline, "no short call in the first tenth of a second"
            before, began = shorts.sufficed, client.time()
            holder = f"{began}"  # of which each gets one permit
            permit = permit_of(store.acquire(claim(5), holder))
            ended = client.time()
            assert began <= divmod(round(permit.acquired_at * 1_000_000), 1_000_000) <= ended
            is_early = began[0] == ended[0] and ended[1] < 100_000
            was_seen = is_early and shorts.sufficed > before
            store.release(holder, claim(5))
