"""What a worker's log says of a task that waits."""

from __future__ import annotations

import re

import pytest

from tests.support.process import wait_until

from .conftest import Site


@pytest.mark.parametrize("way", ["requeue", "park"])
def test_a_wait_from_its_beginning_to_its_end(site: Site, way: str) -> None:
    worker = site.start(concurrency=2, conf={"semaphore_on_saturated": way})
    assert re.search(r"permits are kept in \S+", worker.log())
    site.occupy()
    result = site.send("hold", 0.0)
    wait_until(lambda: site.waiting() == 1, 20, "it waits")
    site.let_go()
    result.get(timeout=20)
    name, log = f"task hold[{result.id}]", worker.log()
    begins = "waits (no estimate yet)" if way == "requeue" else "is parked"
    assert f"{name} {begins}: semaphore 'one' is saturated: 1 of 1 in use" in log
    assert re.search(rf"{re.escape(name)} got its permit of 'one' after \d+\.\d s", log)
