"""A project whose ``__init__`` imports its app: Celery's start of a worker runs the checks, which need the tasks."""

from __future__ import annotations

from contextlib import closing

import pytest
from celery import Celery

from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker


@pytest.mark.parametrize(
    "task_class", [None, "celery_semaphore:LimitedTask"], ids=["own base", "task_cls"]
)
def test_a_worker_knows_all_tasks_and_runs_the_checks_twice(
    valkey: ValkeyServer, task_class: str | None
) -> None:
    env = {"BROKER": valkey.url, "BACKEND": valkey.url, "STORE": valkey.url}
    worker = CeleryWorker(
        "tests.django.guide", concurrency=1, env=env | {"TASK_CLASS": task_class or ""}
    )
    try:
        worker.start()
        with closing(Celery("client", broker=valkey.url, backend=valkey.url)) as client:
            sent = [client.send_task(f"guide.{name}") for name in ("plain", "limited")]
            wait_until(lambda: "unregistered" in worker.log() or all(s.ready() for s in sent), 20)
            assert "unregistered" not in worker.log()
            assert [each.get(timeout=5) for each in sent][1] == "limited"
            for each in sent:
                each.backend = None
        # Once for the start, once for the import of the tasks that the check itself asks for.
        assert worker.log().count("the checks run") == 2
    finally:
        worker.kill_group()
        print(worker.log_tail(60))  # noqa: T201 - pytest shows it when a test failed
        worker.discard()
