"""Whether a process is really gone."""

from __future__ import annotations

import os


def is_gone(pid: int) -> bool:
    """True once a child process runs no more; leaves it for its pool to reap."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True  # reaped already
