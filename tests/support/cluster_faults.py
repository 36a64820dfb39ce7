"""What happens to a Redis Cluster under the work of several processes, and what must be true of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.support.clients import Clients
from tests.support.cluster import NODE_TIMEOUT_S, ClusterServer
from tests.support.counter import Counter
from tests.support.watch import Pause, Watch

LEASE = 4.0
GRACE = LEASE * 2 / 3
SLACK_S = 2.0  # for clients to find the node that serves the slot
# Returns at which monotonic time another node served the slot.
Fault = Callable[[ClusterServer, float], float]


def kill(cluster: ClusterServer, seconds: float) -> float:
    owner = cluster.kill_owner()
    cluster.wait_owner_is_not(owner)
    return time.monotonic()


def pause(cluster: ClusterServer, seconds: float) -> float:
    """Stop the owner until it has been replaced, and a while longer; it wakes as an owner that has lost its slots."""
    owner = cluster.pause_owner()
    cluster.wait_owner_is_not(owner)
    served = time.monotonic()
    time.sleep(seconds)
    owner.resume()
    return served


def fail_over(cluster: ClusterServer, seconds: float) -> float:
    cluster.fail_over()
    return time.monotonic()


def migrate(cluster: ClusterServer, seconds: float) -> float:
    """Move the slot key by key: each call is refused meanwhile."""
    migration = cluster.begin_migration()
    time.sleep(seconds)
    cluster.end_migration(*migration)
    return time.monotonic()


def migrate_at_once(cluster: ClusterServer, seconds: float) -> float:
    cluster.migrate_at_once()
    return time.monotonic()


FAULTS: dict[str, Fault] = {
    "kill -9": kill,
    "SIGSTOP": pause,
    "FAILOVER": fail_over,
    "SETSLOT": migrate,
    "MIGRATESLOTS": migrate_at_once,
}


class ClusterWatch(Watch):
    """Clients on a cluster that is hurt."""

    def __init__(self, cluster: ClusterServer, clients: Clients, counter: Counter) -> None:
        super().__init__(clients, counter)
        self._cluster = cluster
        self.pauses: dict[str, list[Pause]] = {}

    def strike(self, name: str, seconds: float) -> None:
        """Let this happen, and wait until clients are admitted and the cluster is whole again."""
        pause = self.pause_of(partial(FAULTS[name], self._cluster, seconds))
        self.pauses.setdefault(name, []).append(pause)
        self.none_is_above()
        self._cluster.heal()


def bound(name: str, seconds: float) -> float:
    """How long nobody may be admitted because of this fault, on a machine that has time to replace a node."""
    unserved = NODE_TIMEOUT_S if name in {"kill -9", "SIGSTOP"} else 0.0
    return unserved + GRACE + SLACK_S + (seconds if name == "SETSLOT" else 0.0)


@contextmanager
def watched(cluster: ClusterServer, counter: Counter, notes: Path) -> Iterator[ClusterWatch]:
    with Clients(cluster.url, counter.address, LEASE, notes) as clients:
        watch = ClusterWatch(cluster, clients, counter)
        yield watch
        watch.judge()


def any_fault() -> tuple[str, float]:
    return random.choice([*FAULTS]), random.choice([0.0, 0.5, 2.0, 10.0])
