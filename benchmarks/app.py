"""Define the tasks that are measured, and count them.

Counting must cost next to nothing beside a task: each process counts in eight bytes of its own file, and the
benchmark adds these up. If a benchmark needs times, each process also writes lines into another file.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from celery.signals import task_received, worker_ready
from redis.commands.core import Script

from celery_semaphore import LimitedTask, task_saturated

DIRECTORY = Path(os.environ.get("BENCH_DIRECTORY", "."))
BROKER = os.environ.get("BENCH_BROKER", "redis://")
VALKEY = os.environ.get("BENCH_VALKEY", "redis://")
LIMIT = int(os.environ.get("BENCH_LIMIT", "5"))

for missing in os.environ.get("BENCH_WITHOUT", "").split():
    sys.modules[missing] = None  # type: ignore[assignment] # so it cannot be imported

app = Celery("bench", broker=BROKER)
app.conf.update(
    task_ignore_result=True,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    **json.loads(os.environ.get("BENCH_CONF", "{}")),
)


class Count:
    """Counts in this process; others can read the number at no cost for the process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pid = 0
        self._value = 0
        self._memory: mmap.mmap
        self._lock = threading.Lock()  # in a pool of threads, several tasks count at once

    def add(self) -> None:
        with self._lock:
            if self._pid != os.getpid():
                self._pid, self._value = os.getpid(), 0
                path = DIRECTORY / f"{self.name}.{self._pid}"
                path.write_bytes(bytes(8))
                with path.open("r+b") as file:
                    self._memory = mmap.mmap(file.fileno(), 8)
            self._value += 1
            struct.pack_into("<Q", self._memory, 0, self._value)


begun = Count("begun")
done = Count("done")
done_free = Count("free")
received = Count("received")
refused = Count("refused")
holding = Count("holding")


def write(line: str) -> None:
    with (DIRECTORY / f"lines.{os.getpid()}").open("a") as file:
        file.write(line + "\n")


@task_received.connect
def _received(**_: Any) -> None:
    received.add()


@worker_ready.connect
def _ready(**_: Any) -> None:
    (DIRECTORY / f"ready.{os.getpid()}").touch()


WIDE: dict[str, Any] = {"base": LimitedTask, "semaphore": "wide", "limit": 10_000}


@app.task(name="plain")
def plain() -> None:
    done.add()


@app.task(name="plain_late", acks_late=True)
def plain_late() -> None:
    done.add()


def _ask_twice() -> None:
    """Run two scripts that do nothing: the least that a task costs if it queries a server before and after."""
    if not _link:
        client = redis.Redis.from_url(VALKEY)
        digest = str(client.script_load("return 1"))
        command = f"*3\r\n$7\r\nEVALSHA\r\n${len(digest)}\r\n{digest}\r\n$1\r\n0\r\n"
        _link.extend((client.connection_pool.get_connection(), [command.encode()]))
    connection, packed = _link
    for _ in range(2):
        connection.send_packed_command(packed)
        connection.read_response()


_link: list[Any] = []  # of this process: a connection, and the command that is sent on it


@app.task(name="asking")
def asking() -> None:
    _ask_twice()
    done.add()


@app.task(name="asking_late", acks_late=True)
def asking_late() -> None:
    _ask_twice()
    done.add()


@app.task(name="limited", **WIDE)
def limited() -> None:
    done.add()


@app.task(name="limited_late", acks_late=True, **WIDE)
def limited_late() -> None:
    done.add()


@app.task(name="keyed", base=LimitedTask, semaphore="keyed", limit=10_000, key="{tenant}")
def keyed(tenant: str) -> None:  # noqa: ARG001 - of its key
    done.add()


@app.task(name="latency")
def latency(sent: float) -> None:
    write(f"latency {time.time() - sent:.6f}")


@app.task(name="free")
def free(seconds: float) -> None:
    start = time.time()
    time.sleep(seconds)
    write(f"free {start:.6f}")
    done_free.add()


WORK: dict[str, Any] = {"base": LimitedTask, "bind": True, "semaphore": "work", "limit": LIMIT}


@app.task(name="default", **WORK)
def default(self: Any, n: int, seconds: float) -> None:
    _work(n, seconds, self.permit.token / 1_000_000)  # the instant it was granted


@app.task(name="requeue", on_saturated="requeue", **WORK)
def requeue(self: Any, n: int, seconds: float) -> None:
    _work(n, seconds, self.permit.token / 1_000_000)  # the instant it was granted


@app.task(name="park", on_saturated="park", **WORK)
def park(self: Any, n: int, seconds: float) -> None:
    _work(n, seconds, self.permit.token / 1_000_000)  # the instant it was granted


def _all() -> str:
    """Make one key of all calls: a function, so that a process tries each message."""
    return "all"


TRIED = WORK | {"semaphore": "tried", "key": _all}


@app.task(name="tried", on_saturated="requeue", **TRIED)
def tried(self: Any, n: int, seconds: float) -> None:
    """Never run: see ``refused``."""


@app.task(name="tried_park", on_saturated="park", **TRIED)
def tried_park(self: Any, n: int, seconds: float) -> None:
    """Never run: see ``refused``."""


@app.task(name="hold", **WORK)
def hold(_: Any) -> None:
    """Hold a permit until the benchmark lets go."""
    holding.add()
    while not (DIRECTORY / "go").exists():
        time.sleep(0.02)


@app.task(name="unlimited")
def unlimited(n: int, seconds: float) -> None:
    _work(n, seconds, time.time())


def _work(n: int, seconds: float, admitted: float) -> None:
    start = time.time()
    begun.add()
    time.sleep(seconds)
    write(f"work {n} {start:.6f} {time.time():.6f} {admitted:.6f}")
    done.add()


@task_saturated.connect
def _refused(sender: Any, refusal: Any, **_: Any) -> None:
    """Write when the task asked first: its ticket keeps the instant in which the store made it."""
    place = refusal.ticket.since
    write(f"asked {sender.request.args[0]} {place:.6f}")
    refused.add()


# A limit as people write it without this library; most have no lease, and count in two steps.
ACQUIRE = """
local now = redis.call("TIME")[1]
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", now)
if redis.call("ZCARD", KEYS[1]) < tonumber(ARGV[2]) then
    return redis.call("ZADD", KEYS[1], now + 60, ARGV[1])
end
return 0
"""

_script: Script | None = None


@app.task(name="by_hand", bind=True, max_retries=None)
def by_hand(self: Any, n: int, seconds: float) -> None:
    global _script  # noqa: PLW0603 - one connection for each process
    if _script is None:
        _script = redis.Redis.from_url(VALKEY).register_script(ACQUIRE)
    if not self.request.retries:
        write(f"asked {n} {time.time():.6f}")  # by this process's clock, just before it asks
    if not _script(["by-hand"], [self.request.id, LIMIT]):
        raise self.retry(countdown=1)
    try:
        _work(n, seconds, time.time())
    finally:
        _script.registered_client.zrem("by-hand", self.request.id)
