"""Greenlets, in a process of their own: what they need is patched before all else."""

import subprocess
import sys
from dataclasses import dataclass

import pytest

from .process import ROOT


@dataclass(frozen=True)
class GreenletPool:
    begin: str
    run: str  # eight times what the script calls ``ask``

    def seconds_of_eight(self, script: str) -> float:
        """How long eight greenlets take together."""
        timed = f"start = time.monotonic()\n{self.run}\nprint(time.monotonic() - start)\n"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", f"{self.begin}import time\n{script}{timed}"],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return float(done.stdout)


GEVENT = GreenletPool(
    "from gevent import monkey, spawn, joinall\nmonkey.patch_all()\n",
    "joinall([spawn(ask) for _ in range(8)], raise_error=True)",
)
EVENTLET = GreenletPool(
    "import eventlet\neventlet.monkey_patch()\n",
    "[each.wait() for each in [eventlet.spawn(ask) for _ in range(8)]]",
)
greenlets = pytest.mark.parametrize("pool", [GEVENT, EVENTLET], ids=["gevent", "eventlet"])
