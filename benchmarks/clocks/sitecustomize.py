"""Let a worker's clock be off by BENCH_CLOCK seconds: Python loads this before whatever else keeps ``time.time``."""

import os
import time

OFF = float(os.environ.get("BENCH_CLOCK") or 0)

if OFF:
    _time = time.time
    time.time = lambda: _time() + OFF
