"""What a release costs beside many waits with two claims: counted, for times depend on the machine."""

from collections.abc import Callable
from typing import Any

from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.testing.conformance.acquisition import admitted, claim
from celery_semaphore.testing.conformance.session_calls import S, held
from tests.support.servers import RedisServer

from .conftest import OpenAt
from .test_redis import commands, reset_stats

API, DISK = claim(), claim(of="disk")
FEW, MANY = 10, 3_000


def wait_for_both(store: Any, many: int) -> None:
    """Hold the permits of both, and let so many tasks wait for both in the line of the first."""
    store.ask(S)
    admitted(store, API, "a")
    for n in range(many):
        held(store, f"both-{n:04}", claims=API + DISK)
    admitted(store, DISK, "x")


def singles_behind(store: Any) -> None:
    for n in range(5):
        held(store, f"api-{n}", claims=API)


def cost_of(server: RedisServer, question: Callable[[], object]) -> int:
    """Return how many commands the scripts of a call ran."""
    reset_stats(server)
    question()
    return sum(commands(server).values())


def costs(server: RedisServer, open_at: OpenAt, many: int) -> list[int]:
    """Return the cost of a release that moves one wait, and of one that grants and lets the next one move."""
    with server.client() as client:
        client.flushall()
    store: RedisStore = open_at(server.url)
    store.ask(S)
    wait_for_both(store, many)
    found = [cost_of(server, lambda: store.release("a", API))]
    assert (store.snapshot("api").waiting, store.snapshot("disk").waiting) == (many - 1, 1)
    found.append(cost_of(server, lambda: store.release("x", DISK)))
    return found


def test_a_release_beside_many_with_the_same_claims(server: RedisServer, open_at: OpenAt) -> None:
    few, many = costs(server, open_at, FEW), costs(server, open_at, MANY)
    for least, most in zip(few, many, strict=True):
        assert most <= 3 * least


def test_a_release_beside_many_before_those_with_one_claim(
    server: RedisServer, open_at: OpenAt
) -> None:
    """One call moves a hundred at most, however many there are."""

    def cost(many: int) -> int:
        with server.client() as client:
            client.flushall()
        store = open_at(server.url)
        wait_for_both(store, many)
        singles_behind(store)
        return cost_of(server, lambda: store.release("a", API))

    assert cost(MANY) <= 1.2 * cost(150)
