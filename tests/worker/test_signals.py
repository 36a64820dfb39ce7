"""Signals: each is heard by who connected for the task, in the process that the docs name."""

from __future__ import annotations

import pytest

from celery_semaphore.core.permit import Claim
from tests.support.process import wait_until

from .conftest import Site

API = Claim("api", None, 5)


@pytest.mark.parametrize(("pool", "runs_in"), [("prefork", "child"), ("threads", "main")])
def test_each_is_sent_by_its_task(site: Site, pool: str, runs_in: str) -> None:
    worker = site.start(app="tests.worker.signalling", pool=pool, concurrency=6)

    def heard(text: str) -> bool:
        return f"heard {text}" in worker.log()

    runs = site.occupy(5, "call", "api")
    waits = site.send("call", 0.0)
    said = f"task_saturated of call[{waits.id}] in {runs_in}: ['refusal']"
    wait_until(lambda: heard(said), 10, "the sixth is refused")
    store = site.store()
    holders = [held.holder for held in store.snapshot(API.resource).holders]
    (lost,) = [holder for holder in holders if holder.startswith(runs[0].id)]
    store.release(lost, [API])
    said = f"permit_lost of call[{runs[0].id}] in main: ['permit', 'reason']"
    wait_until(lambda: heard(said), 10, "a permit is lost")
    site.let_go("api")
    for run in (runs[1], waits):
        run.get(timeout=20)
        assert heard(f"permit_acquired of call[{run.id}] in {runs_in}: ['permit']")
        said = f"permit_released of call[{run.id}] in main: ['held', 'permit']"
        wait_until(lambda said=said: heard(said), 10, "it is released")  # type: ignore[misc]
    site.send("limited_add", 1, 2).get(timeout=20)
    assert "of limited_add" not in worker.log(), "nobody connected for this one"
