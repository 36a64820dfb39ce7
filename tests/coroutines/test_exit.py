"""What a process leaves behind that ends with coroutines: nothing in the store, and it does end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

from celery_semaphore import Semaphore
from tests.support.process import ROOT, wait_until
from tests.support.servers import ValkeyServer

WAITS = """
import asyncio
from celery_semaphore import AsyncSemaphore

api = AsyncSemaphore("api", 2, url={url!r}, lease=60)

async def call():
    async with api:
        await asyncio.sleep(60)

async def main():
    await asyncio.gather(*[call() for _ in range(40)])

asyncio.run(main())
"""


def test_an_interrupted_program(valkey: ValkeyServer) -> None:
    """Two hold a permit, 38 wait."""
    api = Semaphore("api", 2, url=valkey.url, lease=60)
    command = [sys.executable, "-c", WAITS.format(url=valkey.url)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as program:
        wait_until(lambda: api._seen().waiting == 38, 30, "they wait")
        program.send_signal(signal.SIGINT)
        program.wait(30)
    seen = api._seen()
    assert (seen.occupied, seen.waiting) == (0, 0)


SUSPENDED = """
import asyncio
from celery_semaphore import AsyncSemaphore
from celery_semaphore.core import loop_calls
from celery_semaphore.core.held_permits import held_permits_in

loop_calls.IDLE_S = 0.1  # the threads of the calls have ended by then
api = AsyncSemaphore("api", 1, url={url!r})
other = AsyncSemaphore("other", 1, url={url!r}, prefix="other")
for each in (api, other):
    held_permits_in(each._store).check()
kept = [api.acquire(), other.acquire()]

async def suspend():
    for each in kept:
        each.send(None)
    while any(loop_calls.loop_calls_of(each._store)._threads for each in (api, other)):
        await asyncio.sleep(0.1)

asyncio.run(suspend())
print("ends", flush=True)
"""


def test_a_coroutine_that_only_the_end_closes(valkey: ValkeyServer) -> None:
    """Its release would begin a thread, which does not run any more: the process would wait for it for ever."""
    since = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", SUSPENDED.format(url=valkey.url)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.split() == ["ends"], done.stderr
    assert done.returncode == 0
    assert time.monotonic() - since < 30


QUEUED = """
import asyncio, time
from celery_semaphore import AsyncSemaphore

api = AsyncSemaphore("api", 9, url={url!r}, lease=60)
call_all = api._store.call_all

def slowly(calls):
    time.sleep(0.1)
    return call_all(calls)

async def main():
    permits = [await api.acquire() for _ in range(9)]
    api._store.call_all = slowly
    tasks = [asyncio.create_task(api.release(each)) for each in permits]
    await asyncio.sleep(0)

asyncio.run(main())
"""


def test_releases_that_a_closed_loop_had_queued(valkey: ValkeyServer) -> None:
    api = Semaphore("api", 9, url=valkey.url, lease=60)
    command = [sys.executable, "-c", QUEUED.format(url=valkey.url)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=60)
    assert api._seen().occupied == 0
