"""Count instructions by valgrind: the server's for a pair, and those of the process that runs a task.

Counts differ by a hundredth between two runs, however busy the machine is. They are no time: a cache that is cold or a
switch of processes is not seen.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.support.process import ROOT
from tests.support.servers import ValkeyServer

from .figure import Figure

FEW, MANY = 100, 400  # of which the difference counts: so the start and the end of a process do not
TIMEOUT_S = 240.0  # of one process; each runs some fifty times as long as without valgrind
COUNTS = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
FOUND = re.compile(r"I\s+refs:\s+([\d,]+)")
WIDE = [Claim("wide", None, 10_000)]
WAITING = Wait(Kind.REQUEUE)


class CountedServer(ValkeyServer):
    """A Valkey whose instructions are counted until its end."""

    @classmethod
    def binary(cls) -> Path | None:
        return Path("/bin/sh")

    def __init__(self) -> None:
        super().__init__(hz="1")  # what it does by itself counts as well
        self.counted = self.directory / "counted"
        command = f'exec {" ".join(COUNTS)} --log-file={self.counted} {ValkeyServer.binary()} "$@"'
        self.before = ["-c", command, "sh"]  # of the shell, which valgrind and the server replace


def measure() -> list[Figure]:
    if shutil.which(COUNTS[0]) is None:
        print("instructions: needs valgrind: apt-get install valgrind")
        return []
    return [_server(), *_tasks()]


def _server() -> Figure:
    of_a_pair = (_pairs(MANY) - _pairs(FEW)) / (MANY - FEW)
    return Figure("the server's instructions for a pair", of_a_pair, 250_000, unit="")


def _pairs(count: int) -> int:
    """Return what a server has counted after so many pairs."""
    server = CountedServer()
    try:
        server.start()
        store = store_from_url(server.url, StoreOptions(lease=600))
        for n in range(count):
            message = MessageId(f"task-{n}:0:0")
            store.acquire(WIDE, f"task-{n}:1", WAITING, message)
            store.release(f"task-{n}:1", WIDE, message)
        store.close()
        server.end(signal.SIGTERM)
        return _refs(server.counted.read_text())
    finally:
        server.stop()


def _tasks() -> list[Figure]:
    with ValkeyServer() as server:
        found = {kind: _of_a_task(server, kind) for kind in ("asking", "limited", "keyed")}
    floor = found.pop("asking")
    label = "instructions of a pool process for a task, to one that asks the server twice"
    return [
        Figure(f"{label}: {kind}", of_a_task / floor, detail={"of a task": round(of_a_task)})
        for kind, of_a_task in found.items()
    ]


def _of_a_task(server: ValkeyServer, kind: str) -> float:
    return (_run(server, kind, MANY) - _run(server, kind, FEW)) / (MANY - FEW)


def _run(server: ValkeyServer, kind: str, count: int) -> int:
    """Return the instructions of a process that runs so many tasks."""
    command = [*COUNTS, sys.executable, "-m", "benchmarks.pool_process", kind, str(count)]
    env = {
        **os.environ,
        "BENCH_VALKEY": server.url,
        "BENCH_DIRECTORY": str(server.directory),
        "BENCH_CONF": f'{{"semaphore_url": "{server.url}"}}',
        "PYTHONHASHSEED": "0",
    }
    ended = subprocess.run(
        command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=True
    )
    return _refs(ended.stderr)


def _refs(report: str) -> int:
    found = FOUND.search(report)
    assert found, report[-1000:]
    return int(found[1].replace(",", ""))
