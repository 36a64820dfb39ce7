"""Say when to sweep: to reap what is overdue in the whole store, whichever process began it."""

from __future__ import annotations

SWEEP_S = 2.0  # between two sweeps of one process
TOGETHER = 10  # sessions; with more of them the pause grows in proportion
LONGEST_SWEEP_S = 10.0  # the longest pause


def sweep_pause(sessions: int) -> float:
    """Return the seconds between two sweeps of one process, among so many awake sessions."""
    return min(SWEEP_S * max(1.0, sessions / TOGETHER), LONGEST_SWEEP_S)
