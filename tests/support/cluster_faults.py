"""What happens to a Redis Cluster under the work of several processes, and what must be true of it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from tests.support.clients import LIMITS, Clients
from tests.support.cluster import NODE_TIMEOUT_S, ClusterServer
from tests.support.counter import Counter
from tests.support.process import wait_until

LEASE = 4.0
GRACE = LEASE * 2 / 3
Fault = Callable[[ClusterServer, float], None]


def kill(cluster: ClusterServer, seconds: float) -> None:
    owner = cluster.kill_owner()
    cluster.wait_owner_is_not(owner)


def pause(cluster: ClusterServer, seconds: float) -> None:
    """Stop the owner until it has been replaced, and a while longer; it wakes as an owner that has lost its slots."""
    owner = cluster.pause_owner()
    cluster.wait_owner_is_not(owner)
    time.sleep(seconds)
    owner.resume()


def fail_over(cluster: ClusterServer, seconds: float) -> None:
    cluster.fail_over()


def migrate(cluster: ClusterServer, seconds: float) -> None:
    """Move the slot key by key: each call is refused meanwhile."""
    migration = cluster.begin_migration()
    time.sleep(seconds)
    cluster.end_migration(*migration)


def migrate_at_once(cluster: ClusterServer, seconds: float) -> None:
    cluster.migrate_at_once()


FAULTS: dict[str, Fault] = {
    "kill -9": kill,
    "SIGSTOP": pause,
    "FAILOVER": fail_over,
    "SETSLOT": migrate,
    "MIGRATESLOTS": migrate_at_once,
}


class Watch:
    """Clients on a cluster, and what an independent counter and their notes say of them."""

    def __init__(self, cluster: ClusterServer, clients: Clients, counter: Counter) -> None:
        self.cluster, self.clients, self.counter = cluster, clients, counter
        self.pauses: dict[str, list[float]] = {}

    def strike(self, name: str, seconds: float) -> None:
        """Let this happen, and wait until clients are admitted and the cluster is whole again."""
        self.work_on(10)
        since = time.monotonic()
        FAULTS[name](self.cluster, seconds)
        self.work_on(10)
        pause = self._longest_pause(since)
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
    """How long nobody may be admitted because of this fault."""
    longest = NODE_TIMEOUT_S if name in {"kill -9", "SIGSTOP"} else 0.0
    return longest + GRACE + 2.0 + (seconds if name == "SETSLOT" else 0.0)


@contextmanager
def watched(cluster: ClusterServer, counter: Counter, notes: Path) -> Iterator[Watch]:
    with Clients(cluster.url, counter.address, LEASE, notes) as clients:
        watch = Watch(cluster, clients, counter)
        yield watch
        watch.judge()


def any_fault() -> tuple[str, float]:
    return random.choice([*FAULTS]), random.choice([0.0, 0.5, 2.0, 5.0])
