"""What docs/howto/beside-other-packages.md says of other packages, with its own example."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.process import ROOT, wait_until
from tests.support.worker import CeleryWorker
from tests.test_documentation import module

from .conftest import Site
from .messages.test_parking import done


@pytest.fixture
def worker(site: Site, tmp_path: Path) -> CeleryWorker:
    """A worker of the page's module."""
    (tmp_path / "ends.py").write_text(module("ends.py"), "utf-8")
    env = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path)])}
    return site.start(
        app="tests.worker.recipes", concurrency=3, env=env, options=["--include", "ends"]
    )


def test_a_dropped_task_calls_no_end_hook_as_a_revoked_one_and_both_are_unlocked(
    site: Site, worker: CeleryWorker
) -> None:
    held = site.occupy()
    revoked = site.send("waits", 6, countdown=1)
    wait_until(lambda: revoked.id in worker.log(), 10, "it is received")
    site.client.control.revoke(revoked.id)
    dropped = site.send("drops", 7)
    for name, number in (("drops", 7), ("waits", 6)):
        said = f"unlocked {name} of [{number}] {{}}"
        wait_until(lambda said=said: said in worker.log(), 20, said)  # type: ignore[misc]
    wait_until(lambda: dropped.state == revoked.state == "REVOKED", 10, "both are over")
    site.let_go()
    done(held)
    assert worker.log().count("unlocked") == 2
    assert "on_failure" not in worker.log()
    assert "after_return" not in worker.log()


@pytest.mark.parametrize(
    ("name", "error"), [("fails", "SemaphoreSaturated"), ("times_out", "SemaphoreTimeout")]
)
def test_what_fails_before_its_body_is_reported_by_task_failure(
    site: Site, worker: CeleryWorker, name: str, error: str
) -> None:
    held = site.occupy()
    failed = site.send(name, 7)
    wait_until(failed.ready, 20, "it fails")
    site.let_go()
    done(held)
    assert worker.log().count(f"reported {error}") == 1
    assert worker.log().count(f"on_failure of {name}: {error}") == 1
    assert worker.log().count(f"after_return of {name}: FAILURE") == 1
