"""A server at its maxmemory: nobody new comes in, and everybody inside goes on."""

from collections.abc import Callable

import pytest
import redis

from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Renewal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.redis import RedisStore
from tests.conformance.acquisition import limits_set
from tests.support.process import wait_until
from tests.support.servers import RedisServer

from .conftest import PARK, OpenAt, claim, park, permit_of, refusal_of

# The first call in each tenth of a lease notes its time even in a full server, and then the server refuses it nothing:
# so a newcomer is let in. Where no lease has to end, it is so long that none does in the time of a test.
LEASE, SHORT_LEASE = 600.0, 1.0
Fill = Callable[[], None]


@pytest.fixture
def full_server(start_server: Callable[..., RedisServer]) -> RedisServer:
    return start_server(maxmemory_policy="noeviction")


@pytest.fixture
def store(full_server: RedisServer, open_at: OpenAt) -> RedisStore:
    return open_at(full_server.url, lease=LEASE)


@pytest.fixture
def store_of_short_leases(full_server: RedisServer, open_at: OpenAt) -> RedisStore:
    return open_at(full_server.url, lease=SHORT_LEASE)


@pytest.fixture
def fill(full_server: RedisServer) -> Fill:
    """Others' keys take all of its memory, and more than these tests give back."""

    def fill() -> None:
        with full_server.client() as client:
            client.setrange("of others", 20_000_000, "x")
            # Far below: the buffers of connections count, too, and the server gives them back when it likes.
            client.config_set("maxmemory", int(client.info("memory")["used_memory"]) - 10_000_000)
        is_full(full_server)

    return fill


def is_full(server: RedisServer) -> None:
    with server.client() as client, pytest.raises(redis.exceptions.OutOfMemoryError):
        client.set("more", b"")


def test_nobody_new_is_let_in(store: RedisStore, fill: Fill) -> None:
    ticket = refusal_of(store.acquire(claim(0), "a", PARK)).ticket
    assert ticket
    fill()
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        store.acquire(claim(of="unused"), "newcomer")
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        store.acquire(claim(0), "b", PARK)
    with pytest.raises(StoreUnavailable, match="maxmemory"):
        store.attach(ticket, claim(0), b"a")


def test_permits_are_renewed(
    full_server: RedisServer, store_of_short_leases: RedisStore, fill: Fill
) -> None:
    store = store_of_short_leases
    permit = permit_of(store.acquire(claim(), "a"))
    fill()
    ends = permit.expires_at + 2 * SHORT_LEASE

    def renewed() -> bool:
        assert store.renew([permit]) == {"a": Renewal.OK}
        return store.snapshot("api").at > ends

    wait_until(renewed, 10)
    is_full(full_server)


@pytest.mark.parametrize("others_came_first", [False, True])
def test_permits_are_restored(
    full_server: RedisServer,
    store: RedisStore,
    open_at: OpenAt,
    fill: Fill,
    *,
    others_came_first: bool,
) -> None:
    """The server filled up while it started anew without them."""
    permit = permit_of(store.acquire(claim(), "a"))
    full_server.flush()
    if others_came_first:
        open_at(full_server.url, lease=LEASE).snapshot("api")
    fill()
    assert store.renew([permit]) == {"a": Renewal.RESTORED}
    is_full(full_server)


def test_a_permit_comes_back(full_server: RedisServer, store: RedisStore, fill: Fill) -> None:
    both = claim() + claim(of="disk")
    permit_of(store.acquire(both, "a"))
    fill()
    store.release("a", both)
    assert store.snapshot("api").occupied == store.snapshot("disk").occupied == 0
    is_full(full_server)


def test_whoever_may_hold_can_be_released(
    full_server: RedisServer, store: RedisStore, fill: Fill
) -> None:
    """An acquire that was not answered, or that the full server refused."""
    store.release("warm", claim())
    fill()
    store.release("a", claim())
    store.release("b", claim(), MessageId("b", "b.1", remember_for=60.0))
    is_full(full_server)


def test_messages_go_out(full_server: RedisServer, store: RedisStore, fill: Fill) -> None:
    permit_of(store.acquire(claim(), "a"))
    park(store, "b")
    fill()
    (grant,) = store.take(store.release("a", claim()).outgoing)
    store.sent([grant])
    store.sent([grant])  # its answer was lost
    assert store.take(store.reap()) == []
    permit_of(store.acquire(claim(), "b2", Wait(Kind.PARK, ticket=grant.ticket)))
    store.release("b2", claim())
    is_full(full_server)


def test_waits_end(full_server: RedisServer, store: RedisStore, fill: Fill) -> None:
    ticket = refusal_of(store.acquire(claim(0), "a", PARK)).ticket
    assert ticket
    store.attach(ticket, claim(0), b"a", name="a")
    fill()
    (ended,) = store.take(store.end(["a"]))
    store.sent([ended])
    assert list(store.resources()) == []
    is_full(full_server)


@pytest.mark.parametrize("how", ["reap", "end"])
def test_the_wait_of_a_message_that_is_on_its_way_ends(
    full_server: RedisServer, store_of_short_leases: RedisStore, fill: Fill, how: str
) -> None:
    """It was granted, and not sent: until it goes back to its place it has its permit."""
    store = store_of_short_leases
    permit_of(store.acquire(claim(), "a"))
    ticket = refusal_of(store.acquire(claim(), "b", PARK)).ticket
    assert ticket
    store.attach(ticket, claim(), b"b", name="b", ends_in=SHORT_LEASE / 10)
    store.release("a", claim())
    fill()
    over = store.snapshot("api").at + SHORT_LEASE / 5

    def is_over() -> bool:
        outgoing = store.reap() if how == "reap" else store.end(["b"])
        assert outgoing <= {"api"}
        return store.snapshot("api").at > over

    wait_until(is_over, 10)
    is_full(full_server)


def test_the_dead_are_reaped(
    full_server: RedisServer, store_of_short_leases: RedisStore, fill: Fill
) -> None:
    store = store_of_short_leases
    permit_of(store.acquire(claim(), "dead"))
    refusal_of(store.acquire(claim(), "gone", Wait(Kind.REQUEUE, longest=0.1)))
    park(store, "b")
    fill()
    messages: list[bytes] = []

    def came() -> list[bytes]:
        messages.extend(grant.payload for grant in store.take(store.reap()))
        return messages

    assert wait_until(came, 10) == [b"b"]
    is_full(full_server)


def test_limits_are_set(full_server: RedisServer, store: RedisStore, fill: Fill) -> None:
    store.set_limit(0, "api")
    fill()
    store.set_limit(None, "api")
    store.set_limit(3, "disk")
    assert limits_set(store) == {"disk": 3}
    is_full(full_server)


def test_a_process_that_starts_can_look(
    full_server: RedisServer, store: RedisStore, open_at: OpenAt, fill: Fill
) -> None:
    """A memory of the store begins with whoever looks first."""
    permit = permit_of(store.acquire(claim(), "a"))
    with full_server.client() as client:
        client.delete("{celery-semaphore}:epoch")
    fill()
    other = open_at(full_server.url, lease=LEASE)
    other.check()
    assert other.snapshot("api").occupied == 1
    assert other.reap() == frozenset()
    assert store.renew([permit]) == {"a": Renewal.OK}
    is_full(full_server)
