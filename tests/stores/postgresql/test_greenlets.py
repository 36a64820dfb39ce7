"""Greenlets wait beside each other, in the pools that have them."""

import subprocess
import sys

import pytest

from tests.support.postgres import PostgresServer
from tests.support.process import ROOT

ASK = """
import time
from celery_semaphore.stores import store_from_url
link = store_from_url({url!r}, timeout=10.0)._link
def ask():
    return link.ask(lambda connection: connection.query("SELECT pg_sleep(0.5)"))
ask()
start = time.monotonic()
{run}
print(time.monotonic() - start)
"""
GEVENT = "from gevent import monkey, spawn, joinall\nmonkey.patch_all()\n"
EVENTLET = "import eventlet\neventlet.monkey_patch()\n"


@pytest.mark.parametrize(
    ("begin", "run"),
    [
        (GEVENT, "joinall([spawn(ask) for _ in range(8)], raise_error=True)"),
        (EVENTLET, "[each.wait() for each in [eventlet.spawn(ask) for _ in range(8)]]"),
    ],
    ids=["gevent", "eventlet"],
)
def test_none_holds_up_the_others(postgres: PostgresServer, begin: str, run: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", begin + ASK.format(url=postgres.url, run=run)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) < 8 * 0.5
