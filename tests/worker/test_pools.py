"""Other pools, eager tasks, and pools that grow and shrink."""

from __future__ import annotations

import sys
from uuid import uuid4

import pytest

from celery_semaphore.core.claim import Claim
from tests.support.process import ROOT, Process, wait_until
from tests.support.variants import also

from .conftest import Site

API, ONE = Claim("api", None, 5), Claim("one", None, 1)


@pytest.mark.parametrize("pool", ["threads", "gevent", "eventlet", "solo"])
def test_other_pools(site: Site, pool: str) -> None:
    site.lease = 60.0
    env = {"EVENTLET_NO_GREENDNS": "yes"}
    workers = [site.start(pool=pool, concurrency=8, env=env, name=name) for name in ("a", "b")]
    names = ["call", "call_late"]
    results = [site.send(names[n % 2], 0.05, "api") for n in range(40)]
    failing = [
        site.send(name, how, uuid4().hex)
        for name in ("early", "late")
        for how in ("failure", "ignore", "retry")
    ]
    wait_until(lambda: all(r.ready() for r in results), 60, "all are done")
    assert {r.state for r in results} == {"SUCCESS"}
    stats = site.counter.stats("api")
    assert stats["completed"] == 40
    assert 1 < stats["max_inside"] <= (2 if pool == "solo" else 5)
    wait_until(
        lambda: [r.state for r in failing] == ["FAILURE", "PENDING", "SUCCESS"] * 2, 30, "ends"
    )
    site.wait_all_back(API, 10)
    site.wait_all_back(ONE, 10)
    for trouble in ("Pool callback raised", "goes on", "Unrecoverable", "in process.pool"):
        assert not any(trouble in worker.log() for worker in workers)


@pytest.mark.slow
def test_autoscale_and_max_tasks_per_child(site: Site) -> None:
    site.lease = 60.0
    worker = site.start(concurrency=1, options=["--autoscale=6,1", "--max-tasks-per-child=3"])
    results = [site.send("call", 0.05, "api") for _ in range(80)]
    wait_until(lambda: all(r.ready() for r in results), 90, "all are done")
    assert {r.state for r in results} == {"SUCCESS"}
    assert site.counter.stats("api")["max_inside"] <= 5
    assert site.counter.stats("api")["completed"] == 80
    assert len(worker.children()) >= 1
    site.wait_all_back(API, 10)


@pytest.mark.parametrize(
    ("name", "how"),
    [("early", "cold"), ("late", "warm"), *also(("early", "warm"), ("late", "cold"))],
)
def test_shutdown_gives_permits_back(site: Site, how: str, name: str) -> None:
    site.lease = 60.0
    worker = site.start(concurrency=2)
    resource = uuid4().hex
    seconds = "sleep" if how == "cold" else "nap"
    site.send(name, seconds, resource)
    wait_until(lambda: site.inside(resource) == 1, 20, "it runs")
    worker.wait_until_running(site.client, 1)
    worker.warm() if how == "warm" else worker.cold()
    worker.wait(30)
    assert site.inside(resource) == 0
    site.wait_all_back(ONE, 5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "keep"),
    [
        ("hold", True),
        ("late", False),
        *also(("late", True), ("hold", False)),
    ],
)
def test_warm_shutdown_keeps_who_waits(site: Site, name: str, *, keep: bool) -> None:
    """The waiting messages go back to the broker; each runs once, on the next worker."""
    conf = {"semaphore_keep": keep, "semaphore_requeue_max_delay": 2.0}
    worker = site.start(concurrency=4, conf=conf)
    args = (0.05, "w") if name == "hold" else ("success", "w")
    site.occupy()
    results = [site.send(name, *args) for _ in range(30)]
    wait_until(lambda: worker.log().count(" waits ") >= 30, 20, "they wait")
    worker.warm()
    site.let_go()
    worker.wait(40)
    site.start(concurrency=4)
    wait_until(lambda: all(r.ready() for r in results), 60, "all are done")
    tasks = site.counter.stats("w")["tasks"]
    assert sorted(tasks) == sorted(r.id for r in results)
    assert {task["entries"] for task in tasks.values()} == {1}


def test_eager(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process of its own, since an app reads its settings once."""
    script = """
import threading, time
from tests.worker.app import app, counter, hold, call, failing, limited_add
from celery_semaphore import SemaphoreTimeout, SemaphoreSaturated
app.conf.semaphore_eager_timeout = 3
assert limited_add.apply((1, 2)).get() == 3
threads = [threading.Thread(target=call.apply, args=((0.5, "eager"),)) for _ in range(12)]
[t.start() for t in threads]; [t.join() for t in threads]
stats = counter.stats("eager")
assert (stats["max_inside"], stats["completed"]) == (5, 12), stats
holder = threading.Thread(target=hold.apply, args=((5.0, "held"),)); holder.start()
while counter.stats("held")["inside"] == 0: time.sleep(0.01)
assert isinstance(hold.apply((0, "never")).result, SemaphoreTimeout)
assert isinstance(failing.apply(("never",)).result, SemaphoreSaturated)
assert counter.stats("never")["entries"] == 0
holder.join()
assert hold.apply((0, "again")).state == "SUCCESS"
assert hold(0, "direct") is None and hold.permit is None
print("all well")
"""
    env = {
        "BROKER": site.broker,
        "BACKEND": site.backend,
        "STORE": site.store_url,
        "LEASE": "60",
        "PYTHONPATH": str(ROOT),
        **site.counter_env,
    }
    with Process("eager", [sys.executable, "-c", script], env=env) as process:
        assert process.wait(60) == 0, process.log()
        assert "all well" in process.log()


def test_a_revoked_greenlet_gives_its_permit_back(site: Site) -> None:
    """No process ends with it that could be waited for."""
    site.lease = 60.0
    site.start(pool="gevent", concurrency=4)
    result = site.send("hold", 30.0, "one")
    wait_until(lambda: site.inside("one") == 1, 20, "it runs")
    result.revoke(terminate=True)
    wait_until(lambda: site.inside("one") == 0, 20, "it ended")
    site.wait_all_back(ONE, 10)
