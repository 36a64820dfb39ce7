"""A second worker in one process, as tests of users start them one after the other."""

from __future__ import annotations

import time

from celery import Celery
from celery.contrib.testing.worker import start_worker

from celery_semaphore import LimitedTask
from tests.support.servers import ValkeyServer


def test_each_worker_of_a_process_releases_and_brings_back(valkey: ValkeyServer) -> None:
    app = Celery("twice", broker=valkey.url, backend=valkey.url, set_as_current=False)

    @app.task(base=LimitedTask, semaphore="one", limit=1, name="nap", shared=False)
    def nap() -> None:
        time.sleep(0.1)

    for _ in range(2):
        with start_worker(app, pool="threads", concurrency=3, perform_ping_check=False):
            for result in [nap.delay() for _ in range(4)]:
                result.get(timeout=30, disable_sync_subtasks=False)
