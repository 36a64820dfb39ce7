"""What happens to a Redis Cluster under the work of several processes, and what must be true of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.support.clients import LIMITS, Clients
from tests.support.cluster import NODE_TIMEOUT_S, ClusterServer
from tests.support.counter import Counter
from tests.support.process import wait_until

LEASE = 4.0
GRACE = LEASE * 2 / 3
SLACK_S = 2.0  # for clients to find the node that serves the slot
# Returns at which monotonic time another node served the slot. Until then nobody can be admitted, by any client.
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


@dataclass(frozen=True)
class Pause:
    """What a fault cost, in seconds."""

    longest: float  # nobody was admitted
    unserved: float  # of the fault, until another node served the slot


class Watch:
    """Clients on a cluster, and what an independent counter and their notes say of them."""

    def __init__(self, cluster: ClusterServer, clients: Clients, counter: Counter) -> None:
        self.cluster, self.clients, self.counter = cluster, clients, counter
        self.pauses: dict[str, list[Pause]] = {}

    def strike(self, name: str, seconds: float) -> None:
        """Let this happen, and wait until clients are admitted and the cluster is whole again."""
        self.work_on(10)
        since = time.monotonic()
        unserved = FAULTS[name](self.cluster, seconds) - since
        self.work_on(10)
        pause = Pause(self._longest_pause(since), unserved)
        self.pauses.setdefault(name, []).append(pause)
        self.cluster.heal()
        self.clients.replace_dead()

    def work_on(self, more: int) -> None:
        enough = self._entries() + more

        def replaced_and_admitted() -> bool:
            self.clients.replace_dead()
            return self._entries() >= enough

        wait_until(replaced_and_admitted, 40, "clients are admitted")

    def _entries(self) -> int:
        return sum(self.counter.stats(name)["entries"] for name in LIMITS)

    def _longest_pause(self, since: float) -> float:
        """How long nobody was admitted, at most."""
        times = [
            each[0] for name in LIMITS for each in self.counter.log(name) if each[1] == "entered"
        ]
        before = max((at for at in times if at < since), default=since)
        times = [before, *sorted(at for at in times if at >= since)]
        return max(b - a for a, b in pairwise(times))

    def judge(self) -> None:
        self.clients.stop()
        above = {name: self.counter.stats(name)["max_inside"] for name in LIMITS}
        assert all(above[name] <= limit for name, limit in LIMITS.items()), above
        notes = self.clients.notes()
        assert [note for note in notes if note.startswith("lost")] == []
        assert {"ok", "restored"} & {*notes}  # or none was held long enough to be renewed


def bound(name: str, seconds: float) -> float:
    """How long nobody may be admitted because of this fault, on a machine that has time to replace a node."""
    unserved = NODE_TIMEOUT_S if name in {"kill -9", "SIGSTOP"} else 0.0
    return unserved + GRACE + SLACK_S + (seconds if name == "SETSLOT" else 0.0)


@contextmanager
def watched(cluster: ClusterServer, counter: Counter, notes: Path) -> Iterator[Watch]:
    with Clients(cluster.url, counter.address, LEASE, notes) as clients:
        watch = Watch(cluster, clients, counter)
        yield watch
        watch.judge()


def any_fault() -> tuple[str, float]:
    return random.choice([*FAULTS]), random.choice([0.0, 0.5, 2.0, 10.0])
