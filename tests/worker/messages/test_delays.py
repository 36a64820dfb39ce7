"""How long a task waits: never so long that the broker gives its message to another meanwhile."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.wait_policy import OnSaturated, WaitPolicy
from celery_semaphore.worker.pool_process.refusal import refusal_of
from celery_semaphore.worker.pool_process.refused_attempt import Refused
from tests.support.process import wait_until

from ..conftest import Site


def test_waits_stay_below_the_visibility_timeout(site: Site) -> None:
    """Or Redis would deliver again what a worker keeps, and again, and all of it might run twice."""
    visible = {"visibility_timeout": 8, "unacked_restore_interval": 1}
    conf = {"broker_transport_options": visible, "semaphore_requeue_delay": 60}
    worker = site.start(concurrency=4, conf=conf)
    site.send("hold", 12.0, "held")
    wait_until(lambda: site.inside("held") == 1, 20, "the permit is taken")
    results = [site.send("hold", 0.0, "w") for _ in range(10)]
    wait_until(lambda: all(r.ready() for r in results), 60, "all are done")
    delays = [float(found) for found in re.findall(r"\] waits about ([\d.]+) s", worker.log())]
    assert len(delays) > 20
    assert max(delays) <= 2
    tasks = site.counter.stats("w")["tasks"]
    assert [tasks[result.id]["entries"] for result in results] == [1] * 10


@pytest.mark.parametrize("reason", [Reason.SATURATED, Reason.RECOVERING])
def test_no_wait_is_longer_than_allowed(reason: Reason) -> None:
    """Not even the grace of a store that recovers, which knows of no bounds."""
    claim = Claim("one", None, 1)
    refusal = Refusal(claim, reason, 1, 1, None, position=0, retry_after=20.0, waited=0.0)
    task = SimpleNamespace(name="t", request=SimpleNamespace(id="x"))
    found = refusal_of(task, "x", refusal, [claim], WaitPolicy(OnSaturated.REQUEUE, 0.1, 2.0, None))
    assert isinstance(found, Refused)
    assert found.attempt.delay == 2.0
