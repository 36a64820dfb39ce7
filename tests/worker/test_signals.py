"""Signals: each is heard by who connected for the task, in the process that the docs name."""

from __future__ import annotations

from pathlib import Path

import pytest
from celery.exceptions import TaskRevokedError

from celery_semaphore.core.claim import Claim
from tests.support.process import wait_until
from tests.support.variants import also

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


def lose(site: Site, *, of: str) -> None:
    """Take the permit of this task away, as an operator would."""
    store = site.store()
    holders = [held.holder for held in store.snapshot(API.resource).holders]
    (lost,) = [holder for holder in holders if holder.startswith(of)]
    store.release(lost, [API])
    store.close()


def expiries(site: Site) -> list[float]:
    store = site.store()
    held = store.snapshot(API.resource).holders
    store.close()
    return [each.expires_at for each in held]


def hanging(name: str, tmp_path: Path) -> dict[str, str]:
    return {"RECEIVER_HANGS": name, "RECEIVER_FREED": str(tmp_path / "freed")}


def test_a_receiver_of_permit_lost_that_hangs_stops_no_renewal(site: Site, tmp_path: Path) -> None:
    worker = site.start(
        app="tests.worker.signalling", concurrency=2, env=hanging("permit_lost", tmp_path)
    )
    runs = site.occupy(2, "call", "api")
    lose(site, of=runs[0].id)
    line = f"task call[{runs[0].id}] lost its permit: "
    wait_until(lambda: line in worker.log(), 10, "a permit is lost")
    (expires,) = expiries(site)
    wait_until(lambda: min(expiries(site)) > expires + 2 * site.lease, 15, "the other is renewed")
    assert "heard permit_lost" not in worker.log(), "the receiver hangs"
    site.let_go("api")
    worker.warm()
    worker.wait(20)
    assert "still runs after 5 s: the worker ends, and 2 signals are not sent" in worker.log()


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", *also("eventlet")])
def test_a_receiver_of_permit_released_that_hangs_holds_up_no_task(
    site: Site, tmp_path: Path, pool: str
) -> None:
    env = {**hanging("permit_released", tmp_path), "EVENTLET_NO_GREENDNS": "yes"}
    worker = site.start(app="tests.worker.signalling", pool=pool, concurrency=6, env=env)
    runs = [site.send("call", 0.0) for _ in range(10)]
    others = [site.send("free") for _ in range(10)]
    for each in (*runs, *others):
        each.get(timeout=20)
    assert "heard permit_released" not in worker.log(), "the receiver hangs"
    Path(env["RECEIVER_FREED"]).touch()
    wait_until(lambda: worker.log().count("heard permit_released") == 10, 20, "all are told")


@pytest.mark.parametrize("pool", ["prefork", "solo", "gevent"])
def test_a_receiver_of_task_revoked_that_hangs_holds_up_no_task(
    site: Site, tmp_path: Path, pool: str
) -> None:
    """Celery's own signal, which it sends in the event loop; that of a dropped task is sent as ours are."""
    site.lease = 60.0
    store = site.store()
    store.acquire([Claim("one", None, 1)], "other")
    store.close()
    env = hanging("task_revoked", tmp_path)
    worker = site.start(app="tests.worker.signalling", pool=pool, concurrency=2, env=env)
    dropped = [site.send("dropped", "w") for _ in range(10)]
    others = [site.send("free") for _ in range(10)]
    for each in others:
        each.get(timeout=20)
    for each in dropped:
        with pytest.raises(TaskRevokedError):
            each.get(timeout=20)
    assert "heard task_revoked" not in worker.log(), "the receiver hangs"
    Path(env["RECEIVER_FREED"]).touch()
    wait_until(lambda: worker.log().count("heard task_revoked") == 10, 20, "all are told")


def test_releases_at_shutdown_are_announced(site: Site) -> None:
    """The pool is gone by then, and the permits of what it ran have come back."""
    worker = site.start(app="tests.worker.signalling", concurrency=2)
    site.occupy(2, "call", "api")
    worker.warm()
    wait_until(lambda: "Warm shutdown" in worker.log(), 10, "it ends")
    site.let_go("api")
    worker.wait(20)
    assert worker.log().count("heard permit_released") == 2
