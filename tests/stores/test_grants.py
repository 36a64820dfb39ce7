"""What a session's grants cost on servers of the Redis family, and what is left of them."""

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.session import GRANT_S, HeldWait
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import admitted, claim, parked
from tests.conformance.grants import released
from tests.conformance.sessions.session_calls import S, T, held, nonces
from tests.conformance.suite import LEASE, TAKE_UP
from tests.support.servers import RedisServer

from .conftest import OpenAt

MANY = 1000
CLAIMS = claim(10 * MANY)
KEYS = "grants", "ends", "rooms"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(server: RedisServer, open_at: OpenAt, clock: Clock) -> RedisStore:
    return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP)


def held_in_pause(
    store: RedisStore, clock: Clock, many: int, session: str = S, claims: list[Claim] = CLAIMS
) -> list[HeldWait]:
    store.set_limit(0, claims[0].semaphore)
    waits = []
    for n in range(many):
        waits.append(held(store, f"{claims[0].semaphore}-{session}-{n}", session, claims))
        clock.advance(0.000_001)
    return waits


def test_a_grant_costs_no_more_beside_many(
    start_server: type[RedisServer], open_at: OpenAt, clock: Clock
) -> None:
    """A thousand are granted to one session; what a server writes for a grant tells what its script handles."""
    server = start_server(appendonly="yes", appendfsync="no", auto_aof_rewrite_percentage="0")
    store = open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP)
    store.ask(S)
    written = []
    with server.client() as client:
        for many in (50, MANY):
            resource = claim(10 * MANY, of=f"of{many}")
            held_in_pause(store, clock, many, claims=resource)
            before = client.info("persistence")["aof_current_size"]
            store.set_limit(None, f"of{many}")
            written.append((client.info("persistence")["aof_current_size"] - before) / many)
    assert len(store.ask(S).granted) == 50 + MANY
    assert written[1] < 1.2 * written[0], written


def left(server: RedisServer) -> list[str]:
    with server.client() as client:
        return [name for name in KEYS if client.exists(f"{{celery-semaphore}}:{name}")]


def test_of_grants_that_were_taken_up_nothing_is_left(
    server: RedisServer, store: RedisStore, clock: Clock
) -> None:
    """A session that sleeps leaves none either: its room is forgotten with it."""
    store.ask(S, room=5)
    (wait,) = held_in_pause(store, clock, 1)
    store.set_limit(None, "api")
    assert left(server) == list(KEYS)
    store.release(wait.ticket, CLAIMS)
    assert left(server) == ["rooms"]
    store.sleep(S)
    assert left(server) == []


def test_of_a_session_that_died_nothing_is_left(
    server: RedisServer, store: RedisStore, clock: Clock
) -> None:
    store.ask(S, room=5)
    clock.advance(LEASE)
    store.ask(T)
    assert left(server) == []


def test_of_lost_keys_no_grants_are_left(
    server: RedisServer, store: RedisStore, clock: Clock
) -> None:
    """No call ends them once the server has evicted their resource: a question of any session deletes them."""
    store.ask(S)
    held_in_pause(store, clock, 70)
    store.set_limit(None, "api")
    with server.client() as client:
        client.delete(*client.keys("{celery-semaphore}:api:*"))
    clock.advance(GRANT_S - 0.01)
    assert len(store.ask(T).granted | store.ask(S).granted) == 70
    clock.advance(0.01)
    assert store.ask(S).granted == frozenset()
    store.ask(T)
    assert left(server) == []


def test_grants_of_one_session_are_not_those_of_another(store: RedisStore, clock: Clock) -> None:
    """One of the names begins like the other."""
    store.ask("s")
    store.ask("s1", room=1)
    one = held_in_pause(store, clock, 2, "s")
    held_in_pause(store, clock, 2, "s1")
    store.set_limit(None, "api")
    assert store.ask("s").granted == nonces(*one)
    assert len(store.ask("s1", room=1).granted) == 1


@pytest.mark.parametrize(("before", "granted"), [(100, 1), (101, 0)])
def test_a_call_passes_over_a_hundred_waits(
    store: RedisStore, clock: Clock, before: int, granted: int
) -> None:
    """H11: others wait for the server meanwhile. A worker without room gives the rest of its waits back."""
    store.ask(S, room=0)
    store.ask(T)
    held_in_pause(store, clock, before)
    held_in_pause(store, clock, 1, T)
    store.set_limit(None, "api")
    assert len(store.ask(T).granted) == granted
    if granted:
        admitted(store, CLAIMS, "new")


def test_of_waits_that_are_over_no_claims_are_left(
    server: RedisServer, store: RedisStore, clock: Clock
) -> None:
    """Let one move to another line, be sent, and end unused at one resource after the other."""
    both = claim() + claim(of="disk")
    admitted(store, claim(), "a")
    admitted(store, both[1:], "y")
    ticket = parked(store, both, "b")
    assert released(store, "a", claim()) == []
    store.sent(released(store, "y", both[1:]))
    clock.advance(TAKE_UP)
    with server.client() as client:
        claims = "{celery-semaphore}:claims"
        for resource, left in (("api", {ticket.nonce.encode()}), ("disk", set())):
            admitted(store, claim(of=resource), "new")
            assert {each.partition(b"\xff")[0] for each in client.zrange(claims, 0, -1)} == left
