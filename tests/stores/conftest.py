"""Stores on servers of the Redis family."""

import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing
from typing import Any

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Store
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis import RedisStore, from_url, scripts
from celery_semaphore.testing.clock import Clock
from tests.support.servers import RedisServer
from tests.support.variants import also

from .life import LEASE, TAKE_UP, Side
from .quiet_life import LASTING_KEYS, Shorts, Sides, never_short, side

OpenAt = Callable[..., RedisStore]
PARK = Wait(Kind.PARK)


@pytest.fixture(params=["valkey", *also("redis")])
def server(request: pytest.FixtureRequest) -> RedisServer:
    found: RedisServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=["start_valkey", *also("start_redis")])
def start_server(request: pytest.FixtureRequest) -> Callable[..., RedisServer]:
    """Starts a server that may be killed."""
    found: Callable[..., RedisServer] = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def open_at() -> Iterator[OpenAt]:
    def open_at(url: str, *, timeout: float = 5.0, **options: Any) -> RedisStore:
        store = from_url(url, StoreOptions(timeout=timeout, **options))
        return stack.enter_context(closing(store))

    with ExitStack() as stack:
        yield open_at


@pytest.fixture
def store(server: RedisServer, open_at: OpenAt) -> RedisStore:
    return open_at(server.url)


def one_after_the_other(way: Callable[[], AbstractContextManager[object]]) -> list[str]:
    """In which order two threads come through, of which the second tries while the first is inside."""
    order, inside = list[str](), threading.Event()

    def first() -> None:
        with way():
            inside.set()
            time.sleep(0.05)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait()
    with way():
        order.append("second")
    thread.join()
    return order


class Late(BaseException):
    """What the handler of ``interrupted`` raises."""


def interrupted(
    way: Callable[[], AbstractContextManager[object]], then: Callable[[], object]
) -> None:
    """Go through this way 500 times until a signal handler raises, wherever it interrupts; ``then`` looks at it."""
    heard, armed = 0, False

    def handler(*_: object) -> None:
        if armed:
            raise Late

    before = signal.signal(signal.SIGVTALRM, handler)
    try:
        until = time.monotonic() + 60
        while heard < 500 and time.monotonic() < until:
            try:
                armed = True
                signal.setitimer(signal.ITIMER_VIRTUAL, random.uniform(0.0001, 0.001))
                while True:
                    with way():
                        pass
            except Late:
                armed = False
                heard += 1
            then()
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
    assert heard >= 500


def claim(limit: int = 1, *, of: str = "api", weight: int = 1) -> list[Claim]:
    return [Claim(of, None, limit, weight)]


def permit_of(answer: Any) -> Permit:
    assert isinstance(answer, Permit), answer
    return answer


def refusal_of(answer: Any) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def park(store: Store, holder: str) -> Ticket:
    ticket = refusal_of(store.acquire(claim(), holder, PARK)).ticket
    assert ticket
    store.attach(ticket, claim(), holder.encode())
    return ticket


@pytest.fixture
def sides(server: RedisServer, open_at: OpenAt, monkeypatch: pytest.MonkeyPatch) -> Sides:
    for name, script in vars(scripts).items():
        if isinstance(script, scripts.Script):
            monkeypatch.setattr(scripts, name, scripts.Script(LASTING_KEYS, *script.parts))

    def sides(clock: Clock) -> tuple[tuple[Side, Side], Shorts]:
        stores = [
            open_at(server.database(n), now=clock, lease=LEASE, take_up=TAKE_UP) for n in (0, 1)
        ]
        shorts = Shorts(stores[0], monkeypatch)
        never_short(stores[1], monkeypatch)
        return (side(server, stores[0], 0), side(server, stores[1], 1)), shorts

    return sides
