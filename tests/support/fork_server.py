"""`python -m tests.support.fork_server [module ...]`: a process that has imported what workers import, and forks.

These imports are most of what the start of a worker, or of another command of Celery, costs.
Requests come from the socket that is its standard input; `forked.py` sends them.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MAX_REQUEST_BYTES = 128 * 1024

# They start no thread, open nothing, and read no variable that a test sets: so
# `celery_semaphore.task.limited_task`, which looks for Django's, is not among them, nor imported by them.
PRELOADED = (
    "celery.app.control",
    "celery.app.events",
    "celery.app.log",
    "celery.apps.worker",
    "celery.backends.redis",
    "celery.bin.celery",
    "celery.concurrency.prefork",
    "celery.worker.components",
    "celery.worker.consumer.delayed_delivery",
    "celery.worker.strategy",
    "celery_semaphore.stores.redis.store",
    "celery_semaphore.worker.main_process.bootstep",
    "celery_semaphore.worker.main_process.request",
    "celery_semaphore.task.options",
    "celery_semaphore.worker.pool_process.gate",
    "celery_semaphore.worker.pool_process.tracer",
    "kombu.transport.pyamqp",
    "kombu.transport.redis",
    "tests.support.counter",
)


@dataclass(frozen=True)
class Request:
    """A module that a new process is to run, as `python -m` does."""

    module: str
    arguments: Sequence[str]
    environment: Mapping[str, str]

    def encoded(self) -> bytes:
        return json.dumps([self.module, self.arguments, dict(self.environment)]).encode()

    def run(self) -> None:
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv[1:] = self.arguments
        runpy.run_module(self.module, run_name="__main__", alter_sys=True)


def serve(requests: socket.socket) -> Request | None:
    """Fork for each request, and return it in the new process; return None after the last one."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # its own children need no wait
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST_BYTES, 4)
        if not message:
            return None
        *standard, status = descriptors
        if os.fork() == 0:
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            begin_session(standard)
            if pid := os.fork():
                report(pid, status)
            os.close(status)
            os.setsid()
            return Request(*json.loads(message))
        for descriptor in descriptors:
            os.close(descriptor)


def begin_session(standard: Sequence[int]) -> None:
    """Leave the session of the server, and take these for the standard input, output and error."""
    os.setsid()
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)


def report(pid: int, status: int) -> None:
    """Send the id of a child, and its exit code when it has ended; then end this process."""
    os.write(status, f"{pid}\n".encode())
    _, ended = os.waitpid(pid, 0)
    os.write(status, f"{os.waitstatus_to_exitcode(ended)}\n".encode())
    os._exit(0)


def main() -> None:
    for name in (*PRELOADED, *sys.argv[1:]):
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a worker would copy all pages that it shares with this process
    request = serve(socket.socket(fileno=os.dup(0)))
    if request:
        request.run()


if __name__ == "__main__":
    main()
