"""Sentinels promote a replica fifty times while processes hold permits in its primary."""

from __future__ import annotations

import random
import statistics
import time
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


def kill(sentinel: SentinelServer) -> float:
    primary = sentinel.primary()
    primary.kill()
    sentinel.wait_primary_is_not(primary)
    served = time.monotonic()
    primary.start()
    return served


def stop(sentinel: SentinelServer) -> float:
    """Stop the primary until it has been replaced; it wakes as one, for some ten seconds."""
    primary = sentinel.primary()
    primary.pause()
    sentinel.wait_primary_is_not(primary)
    served = time.monotonic()
    time.sleep(random.choice([0.0, 0.5, 2.0]))
    primary.resume()
    return served


def promote(sentinel: SentinelServer) -> float:
    """Change places as an operator does; the former primary goes on as one for some ten seconds."""
    primary = sentinel.primary()
    sentinel.promote()
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
            fail_over = random.choice([kill, stop, promote])
            pause = watch.pause_of(partial(fail_over, sentinel))
            print(f"{n}: {fail_over.__name__}: {pause}", flush=True)
            pauses.append(pause.longest)
            watch.none_is_above()
            sentinel.wait_whole()
        watch.judge()
        all_come_back(sentinel.url, LEASE, OPTIONS)
    print(f"{statistics.median(pauses):.1f} s, at most {max(pauses):.1f} s")
