"""Run tasks as a pool process does, without a worker: ``python -m benchmarks.pool_process KIND COUNT``."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

from celery.app.trace import build_tracer, fast_trace_task, setup_worker_optimizations

from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import EPOCH, HOLDER, PARKS, SESSION
from celery_semaphore.worker.permits.note import NotePipe
from celery_semaphore.worker.pool_process.postrun import watch_ends

from .app import app

PIPE = 1 << 20  # bytes: the notes of all tasks, as no main process reads them
HOST = "bench"


def main(kind: str, count: int) -> None:
    app.finalize()
    setup_worker_optimizations(app, HOST)
    limiter = limiter_of(app)
    notes = NotePipe()
    fcntl.fcntl(notes._write, fcntl.F_SETPIPE_SZ, PIPE)  # noqa: SLF001 - as a worker drains it
    limiter.serve(notes)
    watch_ends()
    task = app.tasks[kind]
    task.__trace__ = build_tracer(kind, task, app=app, hostname=HOST)
    limiter.process.store.reap()
    for request in _requests(kind, count, limiter.process.store.epoch):
        linked = dict.fromkeys(("callbacks", "errbacks", "chain", "chord"))
        body: Any = (request["args"], {}, linked)
        failed, answer, _ = fast_trace_task(kind, request["id"], request, body, None, None)
        assert not failed, answer
    os._exit(0)  # without what a process does at its end


def _requests(kind: str, count: int, epoch: int | None) -> Iterator[dict[str, Any]]:
    """Yield what the main process sends of each task."""
    for n in range(count):
        task_id = str(UUID(int=(os.getpid() << 64) + n))  # another one in each run, or it is a copy
        came_by = {"exchange": "", "routing_key": "celery", "priority": 0, "redelivered": False}
        request: dict[str, Any] = dict.fromkeys(("shadow", "eta", "expires", "group", "parent_id"))
        request |= {"lang": "py", "task": kind, "id": task_id, "root_id": task_id, "hostname": HOST}
        request |= {"group_index": None, "retries": 0, "timelimit": [None, None]}
        request |= {"argsrepr": "()", "kwargsrepr": "{}", "origin": "gen1@bench", "stamps": {}}
        request |= {"ignore_result": True, "replaced_task_nesting": 0, "stamped_headers": None}
        request |= {"reply_to": task_id, "correlation_id": task_id, "delivery_info": came_by}
        request |= {"args": ("tenant",) if kind == "keyed" else (), "kwargs": {}}
        if kind not in {"plain", "asking"}:
            request |= {HOLDER: f"{task_id}:{n:016x}", EPOCH: epoch}
            request |= {SESSION: "bench/1:0123456789abcdef", PARKS: False}
        yield request


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
