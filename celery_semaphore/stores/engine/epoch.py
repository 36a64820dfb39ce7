"""Keep the epoch of the store: a new one begins when permits may have been lost."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.formats import FORMAT, check_format


@dataclass
class Epoch:
    """``enter`` begins a new epoch if needed; living holders restore their permits during its grace.

    It keeps the durations in force for all callers, which ``set_durations`` changes (A16).
    """

    lease: int = 0  # of the first caller; none yet
    take_up: int = 0
    slow: int = 0  # the longest lease that some may still renew by, until ``slow_until``
    slow_until: int = 0
    id: int = 0  # none yet
    restarted: bool = False  # since it began: the last writes may be lost
    created: int = 0
    grace_until: int = 0
    called: int = 0  # when a call came last, as far as it was noted; 0: never
    silent_since: int = 0  # when the last silence began
    awaited_until: int = 0  # no permit ends until then that was alive at that time
    format: int = FORMAT

    def enter(self, now: int, known: int, durations: tuple[int, int]) -> int:
        """Return the epoch at this instant, for a caller that knows the epoch ``known`` (0: none).

        ``durations`` are the caller's. Raise ``NewerFormat`` if this release must not write to the store.
        """
        check_format("the store", self.format)  # A1
        # A caller that knew an older epoch, which the first one of this epoch did not; what it brings was in force.
        late = 0 < known < self.id and not self.grace_until and now < self.created + durations[0]
        if late or not self.lease:  # A16
            self.lease, self.take_up = durations
        recovered = now + self._grace(now)
        # A2, after E16. A caller that knows a newer epoch used a store that took over meanwhile, and came back to this
        # one.
        if not self.id or self.restarted or known > self.id:
            self.grace_until = recovered if known or self.id else 0
            self.id = max(now, self.id + 1, known + 1)
            self.created, self.restarted = now, False
        elif late:
            self.grace_until = recovered
        self.grace_until = min(self.grace_until, self.furthest(now))
        self._note_call(now)
        return self.id

    def permits_ended_by(self, now: int) -> int:
        """Return the time that the lease of a permit must have ended by, if the permit is over."""
        return self.silent_since if now < self.awaited_until else now

    def _note_call(self, now: int) -> None:
        """A17: note the time of the call, at most ten times in a lease.

        If no call came for longer than two renewals take, no holder could renew: then no permit that was alive when
        the silence began ends for the length of a grace. A holder may not have renewed by a longer lease yet.
        """
        if self.called and abs(now - self.called) * 10 < self.lease:
            return
        if now < self.called:  # the clock stepped back
            self.awaited_until = 0
        elif self.called and now - self.called > self._shortest(self.called) * 2 // 3:
            self.silent_since, self.awaited_until = self.called, now + self._grace(now)
        self.called = now

    def _grace(self, now: int) -> int:
        """Return how long holders may need to renew again: two renewals."""
        return self.slowest(now) * 2 // 3

    def _shortest(self, now: int) -> int:
        return min(self.lease, self.slow) if now < self.slow_until else self.lease

    def set_durations(self, now: int, durations: tuple[int, int]) -> None:
        """Change the durations for all callers, each of which learns them by its next call (A16)."""
        self.slow = self.slowest(now)
        self.slow_until = now + self.slow
        self.lease, self.take_up = durations

    def slowest(self, now: int) -> int:
        """Return the longest lease that some may still renew by."""
        return max(self.lease, self.slow) if now < self.slow_until else self.lease

    def furthest(self, now: int) -> int:
        """Return the latest time that a lease, a grant or the grace can end; later ones are cut.

        The clock may have stepped back. It allows three times the longest duration, for one that only stutters.
        """
        return now + 3 * max(self.slowest(now), self.take_up)
