"""A wait is known by its nonce: whatever its ticket says of priority and place, it is the same wait."""

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.session import GRANT_S
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.redis import RedisStore, waits_of
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import (
    admitted,
    came_back,
    claim,
    parked,
    refused,
)
from tests.conformance.grants import messages, released
from tests.conformance.suite import LEASE, TAKE_UP
from tests.conformance.waiting.calling import calling, calls, granted
from tests.support.servers import RedisServer

from .conftest import OpenAt

API, DISK = claim(), claim(of="disk")
BOTH = API + DISK


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(server: RedisServer, open_at: OpenAt, clock: Clock) -> RedisStore:
    return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP)


def returns(ticket: Ticket) -> Wait:
    return came_back(ticket, Kind.PARK)


def line(store: RedisStore, resource: str = "api") -> list[str]:
    """Who waits, and how many there are of them."""
    seen = store.snapshot(resource)
    assert seen.waiting == len(seen.waiters)
    return [each.ticket.nonce for each in seen.waiters]


class TestHolderOfAWait:
    """The name of a wait is that of the holder for which it was made."""

    def test_its_permit_is_not_its_grant(self, store: RedisStore) -> None:
        """The delivery that was refused has its permit by now, and a copy of its message is granted another."""
        admitted(store, claim(2, weight=2), "a")
        ticket = parked(store, claim(2), "b")
        store.sent(released(store, "a", claim(2, weight=2)))
        permit = admitted(store, claim(2), "b", returns(ticket))
        (grant,) = store.take(store.attach(ticket, claim(2), b"b"))
        assert store.snapshot("api").occupied == len(store.snapshot("api").holders)
        assert granted(store) == [grant.ticket]
        assert admitted(store, claim(2), "b", returns(ticket)) == permit
        store.release("b", claim(2))
        assert granted(store) == [grant.ticket]
        store.release(grant.ticket, claim(2))
        assert list(store.resources()) == []

    def test_it_asks_again_without_its_ticket(self, store: RedisStore, clock: Clock) -> None:
        """Its answer was lost; meanwhile a permit was handed to it."""
        admitted(store, API, "a")
        calling(store, API, "b")
        store.release("a", API)
        (held,) = store.snapshot("api").holders
        clock.advance(1)
        assert admitted(store, API, "b", calls()).token == held.token
        assert granted(store) == []

    def test_it_asks_when_its_grant_has_ended(self, store: RedisStore, clock: Clock) -> None:
        """Its wait is in transit, at its place."""
        admitted(store, API, "a")
        ticket = calling(store, API, "b")
        store.release("a", API)
        clock.advance(GRANT_S)
        store.set_limit(0, "api")
        again = refused(store, API, "b", calls())
        assert (again.waited, again.ticket) == (GRANT_S, ticket)
        assert (line(store), granted(store)) == (["b"], [])

    @pytest.mark.parametrize("name", ["255.1700000000000000.b", "000.1.", "123.4.5"])
    def test_it_is_named_like_a_ticket(self, store: RedisStore, name: str) -> None:
        admitted(store, API, name)
        assert granted(store) == []
        parked(store, API, "w")
        assert messages(released(store, name, API)) == [b"w"]
        assert refused(store, API, name).reason is Reason.RELEASED


def test_messages_are_sent_in_the_order_of_their_grants(store: RedisStore, clock: Clock) -> None:
    heavy = claim(3, weight=3)
    admitted(store, heavy, "a")
    for holder in "zyx":
        clock.advance(1)
        parked(store, claim(3), holder)
    assert messages(released(store, "a", heavy)) == [b"z", b"y", b"x"]


def test_of_a_dead_session_nothing_is_left(
    server: RedisServer, store: RedisStore, clock: Clock
) -> None:
    """Its grants end one after the other, and it never asks again."""
    admitted(store, API, "a")
    calling(store, API, "b")
    store.release("a", API)
    with server.client() as client:
        assert client.zcard("{celery-semaphore}:grants") == 1
        clock.advance(GRANT_S)
        store.reap()
        assert client.exists("{celery-semaphore}:grants", "{celery-semaphore}:ends") == 0
        assert client.zcard("{celery-semaphore}:sessions") == 0


def test_the_waits_of_a_task_are_found_behind_many_with_ids_that_begin_alike(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One call reads few: others wait for it."""
    monkeypatch.setattr(waits_of, "FOUND", 3)
    admitted(store, API, "a:1")
    for holder in [*(f"t:{n}:1" for n in range(10)), "t:x1", *(f"t:y{n}:1" for n in range(3))]:
        refused(store, API, holder, Wait(Kind.REQUEUE))
    assert [each.waiter.ticket.nonce for each in store.waits_of("t")] == ["t:x1"]
