"""One lease for workers and callers, whatever each is set to."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.errors import SemaphoreTimeout
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.ops.conftest import Command
from tests.support.process import wait_until

from .conftest import Site


def ends(site: Site) -> float:
    """Seconds until the lease of the running task ends."""
    with closing(site.store()) as store:
        seen = store.snapshot("one")
        return seen.holders[0].expires_at - seen.at


def test_a_semaphore_with_a_short_lease_runs_beside_no_task(site: Site) -> None:
    site.lease = 12.0
    worker = site.start(concurrency=1)
    site.occupy()
    with pytest.raises(SemaphoreTimeout):
        Semaphore("one", 1, url=site.store_url, lease=1.0, timeout=9).acquire()
    assert ends(site) > 12.0 / 2
    assert "lost its permit" not in worker.log()
    site.let_go()


def test_a_worker_learns_the_lease_that_the_store_keeps(site: Site) -> None:
    """An operator changes it while a task runs; then the worker renews by it, and says so once."""
    with closing(store_from_url(site.store_url, StoreOptions(lease=20.0))) as store:
        store.snapshot("one")
    site.lease = 3.0
    worker = site.start(concurrency=1)
    site.occupy()
    assert 20.0 / 2 < ends(site) <= 20.0
    assert worker.log().count("the store keeps 20 s") == 1
    said = Command(site.env()).says("lease", "2")
    assert said.startswith("The lease of the store is 2 s now; it was 20 s.\n")
    assert "semaphore_lease is 3 s here" in said
    wait_until(lambda: ends(site) <= 2.0, 20, "the worker renews by it")
    until = time.monotonic() + 5.0
    while time.monotonic() < until:
        assert ends(site) > 0
        time.sleep(0.1)
    assert Command(site.env()).says("lease", "30").startswith("The lease of the store is 30 s now")
    wait_until(lambda: ends(site) > 20.0, 20, "the worker renews by it")
    assert "lost its permit" not in worker.log()
    site.let_go()


def test_a_lease_with_a_unit_at_a_store_that_kept_none(site: Site) -> None:
    semaphore = Command(site.env())
    none = "The lease of the store is 20 s now; none was kept before.\n"
    assert semaphore.says("lease", "20s").startswith(none)
    assert semaphore.says("lease", "2m").startswith(
        "The lease of the store is 120 s now; it was 20 s.\n"
    )
    wrong = semaphore("lease", "1w")
    assert (wrong.code, "such as 60, 60s or 2m" in wrong.err) == (2, True)


def test_a_command_warns_in_one_line_of_another_lease(site: Site) -> None:
    with closing(store_from_url(site.store_url, StoreOptions(lease=20.0))) as store:
        store.snapshot("one")
    site.lease = 3.0
    semaphore = Command(site.env())
    here = "semaphore_lease is 3 s here, but the store keeps 20 s: that is in force."
    assert semaphore("list").err == f"{here} `check` says what to do.\n"
    assert f"Warning: {here} Set semaphore_lease = 20 here" in semaphore("check").out


def test_no_lease_that_a_setting_could_not_have(site: Site) -> None:
    said = Command(site.env())("lease", "0.5")
    assert (said.code, "SECONDS must be 1 or more" in said.err) == (2, True)


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_no_other_number(site: Site, seconds: str) -> None:
    said = Command(site.env())("lease", "--", seconds)
    assert (said.code, "SECONDS must be a number above 0" in said.err) == (2, True)
