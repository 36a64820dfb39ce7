"""Kill a worker in the middle of its work."""

import signal
from collections.abc import Callable

from ..programs import Program
from ..service import LIMIT
from .sight import LEASE, Eyes, Sight

BUSY = 2  # the fewest permits that it holds when it dies
SETTLED = 1.0  # seconds after which only dead processes still hold the same permits
FIRST = 100  # tasks that are served before the kill


class Crash:
    """Kills a worker's main process, and reports what happens to its permits and messages."""

    def __init__(self, victim: Program, eyes: Eyes, tell: Callable[[str], None]) -> None:
        self.victim = victim
        self.eyes = eyes
        self.tell = tell
        self.at: float | None = None
        self.permits_back: float | None = None
        self.messages_back: float | None = None
        self._held: frozenset[str] = frozenset()
        self._orphans: frozenset[str] = frozenset()

    def see(self, sight: Sight, tasks: set[str]) -> None:
        if self.at is None:
            self._kill(sight, tasks)
        elif self.permits_back is None:
            self._watch_permits(sight, sight.at - self.at)
        elif self.messages_back is None and not self.eyes.delivered_before(self.at):
            self.messages_back = sight.at - self.at
            self.tell(f"{self.messages_back:.1f} s later its messages are delivered again")

    def _kill(self, sight: Sight, tasks: set[str]) -> None:
        busy = (sight.inside or {}).get(f"{self.victim.name}@localhost", 0)
        if sight.served < FIRST or busy < BUSY or not self._killed(tasks):
            return
        after = self.eyes.look()
        self.at, self._held = after.at, after.holders
        self.tell(
            f"kill -9 {self.victim.process.pid}: {self.victim.name} is gone, with all its processes"
        )

    def _killed(self, tasks: set[str]) -> bool:
        """Kill the worker at a moment when no message is on its way to one.

        Celery's Redis transport first takes a message out of the queue, and then records it. A process that dies
        between the two loses the message, and no plugin can prevent that. So the demo stops worker and broker, and
        kills only if the server knows all messages.
        """
        self.victim.signal(signal.SIGSTOP)
        self.eyes.broker.client_pause(1000, all=False)
        try:
            known = self.eyes.in_server()
            if tasks <= known | self.eyes.ask("served").keys():
                self.victim.process.kill()
                self.victim.process.wait()
                return True
            self.victim.signal(signal.SIGCONT)
            return False
        finally:
            self.eyes.broker.client_unpause()

    def _watch_permits(self, sight: Sight, since: float) -> None:
        if since < SETTLED:
            return
        if not self._orphans:
            self._orphans = self._held & sight.holders
            count = len(self._orphans)
            self.tell(f"{count} of the {LIMIT} permits are still in its name")
        if not self._orphans & sight.holders:
            self.permits_back = since
            self.tell(f"{since:.1f} s later its permits are free again (a lease is {LEASE:g} s)")
