"""Set a worker's clock off by BENCH_CLOCK seconds: Python loads this before any module that keeps ``time.time``.

Only ``time.time`` is off, by which kombu and Celery run their timers; ``datetime`` is written in C and reads the
machine's clock.
"""

import os
import time

OFF = float(os.environ.get("BENCH_CLOCK") or 0)

if OFF:
    _time = time.time
    time.time = lambda: _time() + OFF
