"""Several threads are the first to use a task, as those of a web server are."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
from celery import Celery

from celery_semaphore import LimitedTask
from celery_semaphore.task.options import Options
from tests.support.process import wait_until


def test_a_call_waits_until_another_thread_has_limited_the_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = Celery("first", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    binds, go_on = Event(), Event()
    checked = Options.of

    def slowly(cls: Any) -> Any:
        binds.set()
        assert go_on.wait(10)
        return checked(cls)

    monkeypatch.setattr(Options, "of", slowly)

    @app.task(base=LimitedTask, semaphore="api", limit=1, name="call", shared=False)
    def call() -> None: ...

    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(lambda: call.delay())  # noqa: PLW0108 - its first use is there
        assert binds.wait(10)
        second = threads.submit(app._tasks["call"].delay)
        wait_until(lambda: second.running() or second.done(), 10, "it is called, too")
        go_on.set()
        assert first.result(10).id != second.result(10).id
