"""Let a worker's clock be off by BENCH_CLOCK seconds: Python loads this before whatever else keeps ``time.time``.

By ``time.time`` alone, with which kombu and Celery run their timers; ``datetime`` is written in C and shows the machine's.
"""

import os
import time

OFF = float(os.environ.get("BENCH_CLOCK") or 0)

if OFF:
    _time = time.time
    time.time = lambda: _time() + OFF
