"""A task whose callable gives the limit 0 waits with its worker, which asks the callable again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.process import wait_until
from tests.support.variants import also

from .conftest import Site

ZERO = "the task's own limit is 0 now"


@pytest.mark.parametrize("how", ["park", *also("requeue")])
def test_its_callable_is_asked_again(site: Site, tmp_path: Path, how: str) -> None:
    night = tmp_path / "night"
    worker = site.start(
        app="tests.worker.deployment",
        concurrency=2,
        conf={"semaphore_on_saturated": how},
        env={"LIMIT": "1", "NIGHT": str(night)},
    )
    late = site.send("nightly", "n")
    wait_until(lambda: ZERO in worker.log(), 20, "it is refused")
    orders = [site.send("order", 0.1, "o") for _ in range(20)]
    wait_until(lambda: all(each.ready() for each in orders), 30, "all others ran")
    assert site.counter.stats("o")["max_inside"] == 1
    wait_until(lambda: worker.log().count(ZERO) > 2, 4 * site.lease, "it is asked again and again")
    store = site.store()
    (totals,) = store.totals(["orders"])
    store.close()
    assert (totals.waiting, totals.in_transit, totals.parked) == (1, 1, 0)
    assert not late.ready()
    night.touch()
    wait_until(late.ready, 3 * site.lease, "it runs")
    assert late.state == "SUCCESS"
    assert site.counter.stats("n")["tasks"][late.id]["entries"] == 1
