"""Many processes on the real clock; some are killed. The books are held against who really runs."""

import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any

import pytest

from celery_semaphore.core.permit import Grant, Kind, Permit, Wait
from celery_semaphore.stores import store_from_url
from tests.support.counter import Counter, CounterServer

from .conftest import claim

FORK = get_context("fork")  # each process opens its own store
LEASE = 2.0
LIMIT = 4
BOTH = claim(LIMIT) + claim(LIMIT - 1, of="disk")

pytestmark = pytest.mark.race


def hold(counter: Counter, permit: Permit) -> None:
    """Run; a holder that is late on its own clock would stop, so none holds for as long as a lease.

    Now and then one is killed while it is inside.
    """
    names = {one.semaphore for one in permit.claims}
    with counter.inside("api", permit.holder):
        if random.random() < 0.02:
            os.kill(os.getpid(), signal.SIGKILL)
        if "disk" in names:
            with counter.inside("disk", permit.holder):
                time.sleep(random.uniform(0, 0.01))
        else:
            time.sleep(random.uniform(0, 0.01))


def requeue(url: str, address: str, until: float) -> None:
    """Ask, hold, release; come back when told, with one and with two claims."""
    store, counter, n = store_from_url(url, lease=LEASE), Counter(address), 0
    while time.monotonic() < until:
        n += 1
        holder, wanted = f"{os.getpid()}-{n}", random.choice([BOTH, BOTH[:1]])
        answer = store.acquire(wanted, holder, Wait(Kind.REQUEUE, shortest=0.001, longest=0.02))
        tries = 0
        while not isinstance(answer, Permit) and time.monotonic() < until:
            time.sleep(answer.retry_after)
            tries += 1
            wait = Wait(Kind.REQUEUE, ticket=answer.ticket, shortest=0.001, longest=0.02)
            answer = store.acquire(wanted, f"{holder}-{tries}", wait)
        if isinstance(answer, Permit):
            hold(counter, answer)
            store.release(answer.holder, wanted)


def park(url: str, address: str, until: float) -> None:
    """Ask, hold or park; run whatever a release hands on."""
    # Grants die with the process that took them: for a whole lease each, nobody would run.
    store, counter, n = store_from_url(url, lease=LEASE, take_up=0.3), Counter(address), 0

    def run(answer: Any) -> list[Grant]:
        if not isinstance(answer, Permit):
            return []
        hold(counter, answer)
        return store.take(store.release(answer.holder, answer.claims))

    while time.monotonic() < until:
        n += 1
        wanted, holder = random.choice([BOTH, BOTH[:1]]), f"{os.getpid()}-{n}"
        answer = store.acquire(wanted, holder, Wait(Kind.PARK))
        if isinstance(answer, Permit):
            grants = run(answer)
        elif answer.position > 20:
            grants = store.take(store.release(str(answer.ticket), wanted))
        else:
            assert answer.ticket
            grants = store.take(store.attach(answer.ticket, wanted, b"message"))
        while grants and time.monotonic() < until:
            grant = grants.pop()
            store.sent([grant])
            wait = Wait(Kind.PARK, ticket=grant.ticket)
            grants += run(
                store.acquire(grant.claims, f"{holder}-{len(grants)}-{grant.token}", wait)
            )
        grants += store.take(store.reap())
        time.sleep(random.uniform(0, 0.005))


def hammer(how: Callable[[str, str, float], None], url: str, address: str, seconds: float) -> int:
    """Ten processes; three times a second one of them is killed, and replaced. How many were."""
    until = time.monotonic() + seconds
    running = [start(how, url, address, until) for _ in range(10)]
    killed = 0
    try:
        while time.monotonic() < until - 0.5:
            time.sleep(0.3)
            victim = running.pop(random.randrange(len(running)))
            victim.kill()
            victim.join()
            running.append(victim)
            dead = [process for process in running if not process.is_alive()]
            killed += len(dead)
            running = [process for process in running if process not in dead]
            running += [start(how, url, address, until) for _ in dead]
        for process in running:
            process.join(20)
        assert {process.exitcode for process in running} <= {0, -signal.SIGKILL}
    finally:
        for process in running:  # or they would be counted in the next test
            process.kill()
    return killed


def start(how: Any, url: str, address: str, until: float) -> Any:
    process = FORK.Process(target=how, args=(url, address, until), daemon=True)
    process.start()
    return process


@pytest.fixture(params=["valkey", "redis", "postgres", "embedded_postgres"])
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param).url
    return found


@pytest.fixture
def address(counter_server: CounterServer, counter: Counter) -> str:
    return counter_server.address


@pytest.mark.slow
@pytest.mark.parametrize("how", [requeue, park])
def test_never_above_the_limit_and_all_permits_come_back(
    url: str,
    how: Callable[[str, str, float], None],
    address: str,
    counter: Counter,
) -> None:
    killed = hammer(how, url, address, 8.0)
    seen = {name: counter.stats(name) for name in ("api", "disk")}
    assert killed > 10
    assert seen["api"]["entries"] > 200
    assert seen["api"]["max_inside"] <= LIMIT
    assert seen["disk"]["max_inside"] <= LIMIT - 1
    assert seen["api"]["closed"] > 0, "no holder was killed"
    time.sleep(LEASE)
    store = store_from_url(url, lease=LEASE)
    drain(store)
    permits = [store.acquire(BOTH, f"last-{n}") for n in range(LIMIT)]
    assert [isinstance(permit, Permit) for permit in permits] == [True] * (LIMIT - 1) + [False]
    store.close()


def drain(store: Any) -> None:
    """Take up and release all that was parked by processes that are dead."""
    n = 0
    deadline = time.monotonic() + 3 * LEASE
    while list(store.resources()) and time.monotonic() < deadline:
        grants = store.take(store.reap())
        for grant in grants:
            n += 1
            wait = Wait(Kind.PARK, ticket=grant.ticket)
            if isinstance(store.acquire(grant.claims, f"drain-{n}", wait), Permit):
                grants += store.take(store.release(f"drain-{n}", grant.claims))
        time.sleep(0.05)
    assert list(store.resources()) == []
