"""Every end of a task gives its permit back, as soon as the main process knows of it.

The lease is a minute, and the permits are back long before: nothing here is the lease's doing.
"""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest
from celery import __version__ as celery_version

from celery_semaphore.core.claim import Claim
from tests.support.process import wait_until
from tests.support.worker import CeleryWorker

from .conftest import Site

ONE = Claim("one", None, 1)
LOST = 15.0
SOON = {"LOOK_FOR_DEAD": "0.5"}  # Celery learns of a lost process within five seconds otherwise

# how it ends -> state with early acks, with late acks, with late acks and reject_on_worker_lost
REJECTED = "FAILURE" if celery_version >= "5.7" else "PENDING"
ENDS = {
    "success": ("SUCCESS", "SUCCESS", "SUCCESS"),
    "failure": ("FAILURE", "FAILURE", "FAILURE"),
    "retry": ("SUCCESS", "SUCCESS", "SUCCESS"),
    "ignore": ("PENDING", "PENDING", "PENDING"),
    "reject": (REJECTED, REJECTED, REJECTED),
    "soft limit": ("FAILURE", "FAILURE", "FAILURE"),
    "soft limit, caught": ("SUCCESS", "SUCCESS", "SUCCESS"),
    "hard limit": ("FAILURE", "FAILURE", "FAILURE"),
    "exit": ("FAILURE", "FAILURE", "SUCCESS"),
    "kill": ("FAILURE", "FAILURE", "SUCCESS"),
    "_exit": ("FAILURE", "FAILURE", "SUCCESS"),
}
# Before 5.7, sys.exit() in a task ends in an EncodeError of Celery's own, and the task has no state.
NO_EXIT = celery_version < "5.7"
CASES = [
    (name, how, states[column])
    for how, states in ENDS.items()
    for column, name in enumerate(["early", "late", "late_lost"])
]
LIMITS: dict[str, dict[str, Any]] = {
    "soft limit": {"soft_time_limit": 0.5, "time_limit": 30},
    "soft limit, caught": {"soft_time_limit": 0.5, "time_limit": 30},
    "hard limit": {"time_limit": 1.0},
}


@pytest.fixture(scope="module")
def worker(module_site: Site) -> CeleryWorker:
    return module_site.start(concurrency=2, env=SOON)


@pytest.mark.parametrize(("name", "how", "state"), CASES)
def test_gives_the_permit_back(
    module_site: Site, worker: CeleryWorker, name: str, how: str, state: str
) -> None:
    resource = uuid4().hex
    result = module_site.send(name, how, resource, **LIMITS.get(how, {}))
    stats = module_site.counter.stats
    wait_until(lambda: stats(resource)["entries"] > 0, 20, f"{name} began")
    if state == "PENDING" or (how == "exit" and NO_EXIT):
        wait_until(lambda: stats(resource)["inside"] == 0, 20, f"{name} ended")
    else:
        wait_until(result.ready, 20, f"{name} is {state}")
        assert result.state == state
    module_site.wait_all_back(ONE, LOST)
    assert stats(resource)["max_inside"] == 1


@pytest.mark.parametrize("name", ["early", "late"])
def test_child_killed_from_outside(module_site: Site, worker: CeleryWorker, name: str) -> None:
    resource = uuid4().hex
    result = module_site.send(name, "sleep", resource)
    wait_until(lambda: module_site.inside(resource) == 1, 20, "it runs")
    (_, _, _, _, pid, _) = module_site.counter.log(resource)[-1]
    worker.kill_child(pid)
    module_site.wait_all_back(ONE, LOST)
    wait_until(result.ready, 20, "it has a state")
    assert result.state == "FAILURE"


@pytest.mark.parametrize("signal", ["SIGTERM", "SIGKILL", "SIGUSR1"])
@pytest.mark.parametrize("name", ["early", "late"])
def test_revoked_while_it_runs(
    module_site: Site, worker: CeleryWorker, name: str, signal: str
) -> None:
    resource = uuid4().hex
    result = module_site.send(name, "sleep", resource)
    wait_until(lambda: module_site.inside(resource) == 1, 20, "it runs")
    result.revoke(terminate=True, signal=signal)
    wait_until(lambda: module_site.inside(resource) == 0, 20, "it ended")
    module_site.wait_all_back(ONE, LOST)
    wait_until(result.ready, 20, "it has a state")
    # Celery's main process stores REVOKED, and a process that SIGUSR1 did not end FAILURE: whichever is later.
    assert result.state in ({"REVOKED", "FAILURE"} if signal == "SIGUSR1" else {"REVOKED"})


def test_a_permit_is_kept_while_its_process_runs(site: Site) -> None:
    """The signal was sent, and the process lives on: it has the permit until it ends."""
    site.lease = 60.0
    site.start(concurrency=2)
    slow = site.send("hold", 3.0, "one")
    wait_until(lambda: site.inside("one") == 1, 20, "it runs")
    slow.revoke(terminate=True, signal="SIGCONT")
    other = site.send("hold", 0.0, "one")
    other.get(timeout=30)
    stats = site.counter.stats("one")
    assert (stats["completed"], stats["max_inside"]) == (2, 1)
