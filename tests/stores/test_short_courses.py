"""Steps that a short call must leave to the long one: it leaves what a store leaves that makes long calls only."""

from __future__ import annotations

import random
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.backoff import Backoff
from celery_semaphore.testing.clock import Clock
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim, permit_of, refusal_of
from .life import DISK, LEASE, Life, or_other_claims
from .quiet_life import QuietLife, Sides

API_CLAIM, DISK_CLAIM = [Claim("api", "eu", 20)], [Claim(DISK, None, 20)]


class TestCourses:
    """Each begins where short calls suffice, and has one step that they must leave to long ones."""

    @pytest.fixture
    def clock(self) -> Clock:
        return Clock(2_000_000_000.0 - 2_000_000_000.0 % LEASE)  # a window begins

    @pytest.fixture
    def life(self, sides: Sides, clock: Clock) -> Life:
        life = QuietLife(sides(clock)[0], clock, random.Random(0))
        for claims in (API_CLAIM, DISK_CLAIM):
            self.acquire(life, claims, "before")
            self.release(life, claims, "before")
        clock.advance(0.001)
        return life

    def acquire(self, life: Life, claims: list[Claim], holder: str, *more: Any) -> Any:
        answer = life.ask(
            lambda store: or_other_claims(store.acquire, claims, holder, *more), holder
        )
        life.check(f"acquire {holder}")
        return answer

    def release(self, life: Life, claims: list[Claim], holder: str, *more: Any) -> None:
        life.ask(lambda store: store.release(holder, claims, *more), holder)
        life.check(f"release {holder}")

    def test_a_clock_steps_back(self, life: Life, clock: Clock) -> None:
        clock.advance(-1.0)
        permit_of(self.acquire(life, API_CLAIM, "a"))

    def test_a_window_ends(self, life: Life, clock: Clock) -> None:
        clock.advance(LEASE - 0.101)
        self.acquire(life, DISK_CLAIM, "a")
        clock.advance(0.2)
        permit_of(self.acquire(life, API_CLAIM, "b"))

    def test_an_overdue_permit_does_not_count_in_the_mean(self, life: Life, clock: Clock) -> None:
        permit_of(self.acquire(life, API_CLAIM, "a"))
        for _ in range(4):
            clock.advance(LEASE / 3)
            life.ask(lambda store: store.snapshot("of a bystander"), "look")
        self.release(life, API_CLAIM, "a")

    @pytest.mark.parametrize("name", ["api/eu", "api"])
    def test_an_operator_pauses_what_is_idle(self, life: Life, name: str) -> None:
        life.ask(lambda store: store.pause(name), "pause")
        assert refusal_of(self.acquire(life, API_CLAIM, "a")).reason is Reason.PAUSED

    @pytest.mark.parametrize("name", ["api/eu", "api"])
    def test_an_operator_limits_what_is_idle(self, life: Life, name: str) -> None:
        life.ask(lambda store: store.set_limit(0, name), "set_limit")
        assert refusal_of(self.acquire(life, API_CLAIM, "a")).reason is Reason.PAUSED

    def test_a_limit_is_declared_where_an_operator_set_the_only_one(self, life: Life) -> None:
        unlimited, limited = [Claim("mail", None, None)], [Claim("mail", None, 20)]
        life.ask(lambda store: store.set_limit(5, "mail"), "set_limit")
        for n in range(2):
            permit_of(self.acquire(life, unlimited, f"a{n}"))
        permit_of(self.acquire(life, limited, "b"))

    def test_a_ticket_is_of_a_wait_elsewhere(self, life: Life) -> None:
        heavy = [Claim(DISK, None, 20, 21)]
        ticket = refusal_of(self.acquire(life, heavy, "a", Wait(Kind.REQUEUE))).ticket
        wait = Wait(Kind.REQUEUE, ticket=ticket)
        assert self.acquire(life, API_CLAIM, "b", wait) == tuple(heavy)

    def test_a_message_is_delivered_again(self, life: Life) -> None:
        self.acquire(life, API_CLAIM, "t:1", None, MessageId("t:0"))
        again = MessageId("t:0", redelivered=True)
        assert (
            refusal_of(self.acquire(life, API_CLAIM, "t:2", None, again)).reason is Reason.RUNNING
        )
        self.release(life, API_CLAIM, "t:1", MessageId("t:0"))
        assert refusal_of(self.acquire(life, API_CLAIM, "t:3", None, again)).reason is Reason.COPY

    def test_a_message_is_not_the_first(self, life: Life) -> None:
        second = MessageId("t:0", "second")
        permit_of(self.acquire(life, API_CLAIM, "t:1", None, second))
        self.release(life, API_CLAIM, "t:1", second)
        third = MessageId("t:0", "third")
        assert refusal_of(self.acquire(life, API_CLAIM, "t:2", None, third)).reason is Reason.COPY

    def test_a_task_has_the_id_of_an_earlier_one(self, life: Life) -> None:
        self.acquire(life, API_CLAIM, "t:1", None, MessageId("t:0", "second"))
        permit_of(self.acquire(life, API_CLAIM, "t:2", None, MessageId("t:0")))

    def test_a_holder_was_released(self, life: Life) -> None:
        assert refusal_of(self.acquire(life, API_CLAIM, "before")).reason is Reason.RELEASED

    def test_a_holder_has_its_permit(self, life: Life) -> None:
        first = self.acquire(life, API_CLAIM, "a")
        assert self.acquire(life, API_CLAIM, "a") == first

    def test_one_is_heavy(self, life: Life) -> None:
        permit_of(self.acquire(life, [Claim("api", "eu", 20, 19)], "a"))
        permit_of(self.acquire(life, API_CLAIM, "b"))
        assert refusal_of(self.acquire(life, API_CLAIM, "c")).reason is Reason.SATURATED
        self.release(life, API_CLAIM, "a")

    def test_one_has_two_claims(self, life: Life) -> None:
        permit_of(self.acquire(life, API_CLAIM + DISK_CLAIM, "a"))
        self.release(life, API_CLAIM + DISK_CLAIM, "a")

    def test_the_epoch_began_before_its_number_had_as_many_digits(self, sides: Sides) -> None:
        """As it would by a clock that is not set yet."""
        clock = Clock(1e9 - 0.5)
        life = QuietLife(sides(clock)[0], clock, random.Random(0))
        for n in range(8):
            permit_of(self.acquire(life, API_CLAIM, f"a{n}"))
            clock.advance(0.06)
            self.release(life, API_CLAIM, f"a{n}")
            clock.advance(0.06)


class TestOtherCallers:
    """What another process begins is in force for short calls at once."""

    @pytest.fixture
    def other(
        self, server: RedisServer, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch
    ) -> RedisStore:
        monkeypatch.setattr(Backoff, "is_due", lambda *_: True)
        return open_at(server.url)

    @pytest.fixture
    def store(self, other: RedisStore, server: RedisServer, open_at: OpenAt) -> RedisStore:
        store = open_at(server.url)
        for holder in ("before", "and once more"):
            permit_of(store.acquire(claim(2), holder))
            store.release(holder, claim(2))
        other.snapshot("api")
        return store

    @pytest.mark.parametrize("knew", [-1, 1])
    def test_an_epoch_with_a_grace(self, store: RedisStore, other: RedisStore, knew: int) -> None:
        """It knew an older one, as after a long outage, or a newer one, of a server that took over meanwhile."""
        assert other.epoch
        other.epoch += knew
        other.snapshot("api")
        assert refusal_of(store.acquire(claim(2), "a")).reason is Reason.RECOVERING

    def test_a_lease(self, store: RedisStore, other: RedisStore) -> None:
        other.set_lease(77.0)
        permit = permit_of(store.acquire(claim(2), "a"))
        assert permit.expires_at - permit.acquired_at == pytest.approx(77.0)
