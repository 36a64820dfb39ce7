"""A process dies between two steps of parking: nobody who waits is lost or runs twice, no permit leaks.

The rows are those of the table in ``worker/messages/move_job.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from celery.result import AsyncResult

from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.variants import also

from ..conftest import Site
from ..test_windows import fault
from .test_parking import ONE, PARK, all_parked

HAND_ON = ["before take", "after take", "after publish", "after sent"]  # what it leaves differs
ACKS = ["early", "late"]


def all_ran_once(site: Site, results: list[AsyncResult]) -> None:
    wait_until(lambda: all(r.ready() for r in results), 60, "all have run")
    tasks = site.counter.stats("w")["tasks"]
    assert {r.state for r in results} == {"SUCCESS"}
    assert {task: each["entries"] for task, each in tasks.items()} == {r.id: 1 for r in results}
    assert site.counter.stats("w")["max_inside"] == 1
    wait_until(lambda: site.waiting() == 0, 10, "nobody waits")


@pytest.mark.slow
@pytest.mark.parametrize("when", HAND_ON)
@pytest.mark.parametrize(
    ("broker", "name"),
    [("site", "early"), pytest.param("rabbit_site", "late", marks=pytest.mark.rabbitmq)],
)
def test_main_process_dies_while_it_hands_on(
    broker: str, name: str, when: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    # Of a queue of its own, for Redis gives a dead worker's unacknowledged messages back much later.
    holder = site.start(
        name="holder",
        concurrency=1,
        queues=["held"],
        conf=PARK,
        env=fault(site, tmp_path, f"main: {when}"),
    )
    site.occupy(queue="held")
    parker = site.start(name="parker", concurrency=1, conf=PARK)
    results = [site.send(name, "success", "w") for _ in range(4)]
    all_parked(site, request, 4)
    parker.warm()
    parker.wait(20)  # so that the victim is the one that hands on
    site.let_go()
    wait_until(lambda: not holder.running(), 20, "the victim is dead")
    site.start(name="heir", concurrency=2, conf=PARK)
    all_ran_once(site, results)
    site.wait_all_back(ONE, site.lease + 5)


@pytest.mark.rabbitmq
@pytest.mark.parametrize("when", ["before attach", "after attach"])
@pytest.mark.parametrize("name", ACKS)
def test_main_process_dies_while_it_parks(
    rabbit_site: Site, tmp_path: Path, name: str, when: str
) -> None:
    """The message is still with the broker, or there and in the store."""
    site = rabbit_site
    site.start(name="other", concurrency=1, queues=["other"], conf=PARK)
    victim = site.start(
        name="victim", concurrency=1, conf=PARK, env=fault(site, tmp_path, f"main: {when}")
    )
    site.occupy(queue="other")
    results = [site.send(name, "success", "w")]
    wait_until(lambda: not victim.running(), 20, "the victim is dead")
    heir = site.start(name="heir", concurrency=1, conf=PARK)
    wait_until(lambda: "is parked" in heir.log(), 20, "it was delivered again")
    assert site.waiting() == 1, "with its old ticket"
    site.let_go()
    all_ran_once(site, results)
    site.wait_all_back(ONE, site.lease + 5)


@pytest.mark.parametrize("when", ["before release", "after release", "after released"])
@pytest.mark.parametrize("name", ACKS)
def test_child_dies_while_it_hands_on(site: Site, tmp_path: Path, name: str, when: str) -> None:
    """Its lease is so long that only its main process can have released, or taken what it handed on."""
    site.lease = 60.0
    site.start(concurrency=2, conf=PARK, env=fault(site, tmp_path, f"child: {when}"))
    site.occupy()
    results = [site.send(name, "success", "w") for _ in range(4)]
    wait_until(lambda: site.waiting() == 4, 20, "all are parked")
    site.let_go()
    wait_until((tmp_path / "struck").exists, 20, "it struck")
    all_ran_once(site, results)
    site.wait_all_back(ONE, 15)


@pytest.mark.parametrize("name", ["late", *also("early")])
def test_a_worker_dies_with_all_its_processes(site: Site, valkey: ValkeyServer, name: str) -> None:
    """While permits are out to what it parked; the rest waits for the next worker."""
    worker = site.start(concurrency=4, conf=PARK)
    site.occupy()
    results = [site.send(name, "nap", "w") for _ in range(3)]
    wait_until(lambda: site.waiting() == 3, 20, "all are parked")
    with valkey.client() as broker:
        wait_until(lambda: broker.hlen("unacked") == 0, 5, "they are acknowledged")
    worker.kill_group()
    site.start(name="heir", concurrency=4, conf=PARK)
    all_ran_once(site, results)
    site.wait_all_back(ONE, 15)
