"""Find out whether a process has ended."""

from __future__ import annotations

import os


def is_gone(pid: int) -> bool:
    """Return whether a child process has ended, and leave it for its pool to reap."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # reaped already
