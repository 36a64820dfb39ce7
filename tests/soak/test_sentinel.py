"""Sentinels promote a replica fifty times while processes hold permits in its primary."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.conftest import need
from tests.support.clients import Clients
from tests.support.counter import Counter, CounterServer
from tests.support.forgetful import all_come_back
from tests.support.sentinel import OPTIONS, SentinelServer
from tests.support.servers import RedisServer
from tests.support.watch import Watch

FAILOVERS = 50
LEASE = 6.0
Fault = Callable[[SentinelServer, RedisServer], AbstractContextManager[None]]


@contextmanager
def kill(_: SentinelServer, primary: RedisServer) -> Iterator[None]:
    primary.kill()
    yield
    primary.start()


@contextmanager
def stop(_: SentinelServer, primary: RedisServer) -> Iterator[None]:
    """Stop it until it has been replaced; it wakes as a primary, for some ten seconds."""
    primary.pause()
    yield
    time.sleep(random.choice([0.0, 0.5, 2.0]))
    primary.resume()


@contextmanager
def promote(sentinel: SentinelServer, _: RedisServer) -> Iterator[None]:
    """Change places as an operator does; the former primary goes on as one for some ten seconds."""
    sentinel.promote()
    yield


def fail_over(how: Fault, sentinel: SentinelServer) -> float:
    """Return when another server was promoted."""
    primary = sentinel.primary()
    with how(sentinel, primary):
        sentinel.wait_primary_is_not(primary)
        return time.monotonic()


@pytest.mark.soak
@pytest.mark.timeout(60 + 60 * FAILOVERS)
def test_fifty_failovers(counter_server: CounterServer, counter: Counter, tmp_path: Path) -> None:
    need(RedisServer)
    pauses = list[float]()
    with (
        SentinelServer() as sentinel,
        Clients(sentinel.url, counter.address, LEASE, tmp_path, options=OPTIONS) as clients,
    ):
        watch = Watch(clients, counter)
        for n in range(FAILOVERS):
            how = random.choice([kill, stop, promote])
            pause = watch.pause_of(partial(fail_over, how, sentinel))
            print(f"{n}: {how.__name__}: {pause}", flush=True)
            pauses.append(pause.longest)
            watch.none_is_above()
            sentinel.wait_whole()
        watch.judge()
        all_come_back(sentinel.url, LEASE, OPTIONS)
    print(f"{statistics.median(pauses):.1f} s, at most {max(pauses):.1f} s")
