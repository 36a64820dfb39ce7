"""Many processes on the real clock; some are killed. The books are held against who really runs."""

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from multiprocessing import get_context
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from celery_semaphore.core.grant import Grant
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores.options import StoreOptions
from tests.support.counter import Counter, CounterServer
from tests.support.dynamodb import EmulatorServer
from tests.support.mariadb import MariaServer
from tests.support.process import wait_until
from tests.support.sqlite import SCHEME, new_file, opened, sqlite_store
from tests.support.variants import also

from .conftest import claim

FORK = get_context("fork")  # each process opens its own store
LEASE = 2.0
LIMIT = 4
Over = Callable[[], bool]
Hammer = Callable[[str, str, Over], None]
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


def requeue(url: str, address: str, over: Over) -> None:
    """Ask, hold, release; come back when told, with one and with two claims."""
    store, counter, n = opened(url, StoreOptions(lease=LEASE)), Counter(address), 0
    while not over():
        n += 1
        holder, wanted = f"{os.getpid()}-{n}", random.choice([BOTH, BOTH[:1]])
        answer = store.acquire(wanted, holder, Wait(Kind.REQUEUE, shortest=0.001, longest=0.02))
        tries = 0
        while not isinstance(answer, Permit) and not over():
            time.sleep(answer.retry_after)
            tries += 1
            wait = Wait(Kind.REQUEUE, ticket=answer.ticket, shortest=0.001, longest=0.02)
            answer = store.acquire(wanted, f"{holder}-{tries}", wait)
        if isinstance(answer, Permit):
            hold(counter, answer)
            store.release(answer.holder, wanted)


def park(url: str, address: str, over: Over) -> None:
    """Ask, hold or park; run whatever a release hands on."""
    # Grants die with the process that took them: for a whole lease each, nobody would run.
    store, counter, n = (
        opened(url, StoreOptions(lease=LEASE, take_up=0.3)),
        Counter(address),
        0,
    )

    def run(answer: Any) -> list[Grant]:
        if not isinstance(answer, Permit):
            return []
        hold(counter, answer)
        return store.take(store.release(answer.holder, answer.claims).outgoing)

    while not over():
        n += 1
        wanted, holder = random.choice([BOTH, BOTH[:1]]), f"{os.getpid()}-{n}"
        answer = store.acquire(wanted, holder, Wait(Kind.PARK))
        if isinstance(answer, Permit):
            grants = run(answer)
        elif answer.position > 20:
            assert answer.ticket
            grants = store.take(store.release(answer.ticket, wanted).outgoing)
        else:
            assert answer.ticket
            grants = store.take(store.attach(answer.ticket, wanted, b"message"))
        while grants and not over():
            grant = grants.pop()
            store.sent([grant])
            wait = Wait(Kind.PARK, ticket=grant.ticket)
            grants += run(
                store.acquire(grant.claims, f"{holder}-{len(grants)}-{grant.token}", wait)
            )
        grants += store.take(store.reap())
        time.sleep(random.uniform(0, 0.005))


def hammer(how: Hammer, url: str, address: str, enough: Callable[[int], bool]) -> None:
    """Ten processes, until enough has happened; three times a second one is killed and replaced."""
    ended = RawValue("b", 0)  # no lock: one who is killed inside it would keep it for ever

    def over() -> bool:
        return bool(ended.value)

    def start() -> Any:
        process = FORK.Process(target=how, args=(url, address, over), daemon=True)
        process.start()
        return process

    running = [start() for _ in range(10)]
    killed = 0

    def kill_one() -> bool:
        nonlocal running, killed
        time.sleep(0.3)
        victim = random.choice(running)
        victim.kill()
        victim.join()
        dead = [process for process in running if not process.is_alive()]
        assert {process.exitcode for process in dead} == {-signal.SIGKILL}
        running = [process for process in running if process not in dead]
        running += [start() for _ in dead]
        killed += len(dead)
        return enough(killed)

    try:
        wait_until(kill_one, 100, "enough were admitted and killed")
        ended.value = 1
        for process in running:
            process.join(20)
        assert {process.exitcode for process in running} <= {0, -signal.SIGKILL}
    finally:
        for process in running:  # or they would be counted in the next test
            process.kill()


@pytest.fixture
def mariadb(mariadb_server: MariaServer) -> Iterator[SimpleNamespace]:
    parameters = mariadb_server.new_database()
    mariadb_server.store(parameters, lease=LEASE).close()
    where = "mysql://{user}@{host}:{port}/{database}".format(**parameters)
    with mariadb_server.without_flushes():
        yield SimpleNamespace(url=where)


OTHER_VERSIONS = also("redis", "postgres", "sqlite", "mariadb", "dynamodb")


@pytest.fixture
def sqlite(tmp_path: Path) -> SimpleNamespace:
    path = new_file(tmp_path)
    sqlite_store(path, lease=LEASE).close()
    return SimpleNamespace(url=f"{SCHEME}{path}")


@pytest.fixture
def dynamodb(emulator_server: EmulatorServer) -> SimpleNamespace:
    return SimpleNamespace(
        url=f"emulator://127.0.0.1:{emulator_server.port}/{emulator_server.new_table()}"
    )


@pytest.fixture(params=["valkey", "embedded_postgres", *OTHER_VERSIONS])
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
    how: Hammer,
    address: str,
    counter: Counter,
) -> None:
    entries = (
        40 if url.startswith("emulator:") else 200
    )  # ten clients at one key are its worst case

    def enough(killed: int) -> bool:
        stats = counter.stats("api")
        return killed > 12 and stats["entries"] > entries and stats["closed"] > 0

    hammer(how, url, address, enough)
    seen = {name: counter.stats(name) for name in ("api", "disk")}
    assert seen["api"]["max_inside"] <= LIMIT
    assert seen["disk"]["max_inside"] <= LIMIT - 1
    store = opened(url, StoreOptions(lease=LEASE))
    over = time.monotonic() + LEASE
    while time.monotonic() < over:
        store.reap()  # else it would be a silence, which ends no permit
        time.sleep(LEASE / 10)
    drain(store)
    permits = [store.acquire(BOTH, f"last-{n}") for n in range(LIMIT)]
    assert [isinstance(permit, Permit) for permit in permits] == [True] * (LIMIT - 1) + [False]
    store.close()


def drain(store: Any) -> None:
    """Take up and release all that was parked by processes that are dead."""
    numbers = count()

    def drained() -> bool:
        grants = store.take(store.reap())
        for grant in grants:
            holder, wait = f"drain-{next(numbers)}", Wait(Kind.PARK, ticket=grant.ticket)
            if isinstance(store.acquire(grant.claims, holder, wait), Permit):
                grants += store.take(store.release(holder, grant.claims).outgoing)
        return not list(store.resources())

    wait_until(drained, 10 * LEASE, "nothing is held, nobody waits")
