"""What an independent counter says of processes that hold permits while their store is hurt."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from tests.support.clients import LIMITS, Clients
from tests.support.counter import Counter
from tests.support.process import wait_until

# Returns at which monotonic time another server was in the place of the one that was hurt.
Fault = Callable[[], float]


@dataclass(frozen=True)
class Pause:
    """What a fault cost, in seconds."""

    longest: float  # nobody was admitted
    unserved: float  # of these no server could, whoever asks

    def __str__(self) -> str:
        return f"nobody was admitted for {self.longest:.1f} s, and no server there for {self.unserved:.1f} s"


class Watch:
    """Clients of a store, and what the counter and their notes say of them."""

    def __init__(self, clients: Clients, counter: Counter) -> None:
        self._clients, self._counter = clients, counter

    def pause_of(self, fault: Fault) -> Pause:
        """Let this happen while the clients work."""
        self._work_on(10)
        since = time.monotonic()
        unserved = fault() - since
        self._work_on(10)
        return Pause(self._longest_pause(since), unserved)

    def _work_on(self, more: int) -> None:
        enough = self._entries() + more

        def replaced_and_admitted() -> bool:
            self._clients.replace_dead()
            return self._entries() >= enough

        wait_until(replaced_and_admitted, 40, "clients are admitted")

    def _entries(self) -> int:
        return sum(self._counter.stats(name)["entries"] for name in LIMITS)

    def _longest_pause(self, since: float) -> float:
        times = [
            each[0] for name in LIMITS for each in self._counter.log(name) if each[1] == "entered"
        ]
        before = max((at for at in times if at < since), default=since)
        times = [before, *sorted(at for at in times if at >= since)]
        return max(b - a for a, b in pairwise(times))

    def judge(self) -> None:
        """End the clients; none was above a limit, and no living holder was told that its permit is lost."""
        self._clients.stop()
        self.none_is_above()
        notes = self._clients.notes()
        assert [note for note in notes if note.startswith("lost")] == []
        assert {"ok", "restored"} & {*notes}  # or none was held long enough to be renewed

    def none_is_above(self) -> None:
        above = {name: self._counter.stats(name)["max_inside"] for name in LIMITS}
        assert all(above[name] <= limit for name, limit in LIMITS.items()), above
