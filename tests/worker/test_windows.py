"""A process dies between two lines: no task is lost that had not begun, and no permit leaks.

The lease is a minute where a child dies, so that only the main process can have released; where the
main process dies nobody is left to release, and the lease of three seconds does.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from celery_semaphore.core.claim import Claim
from tests.support.process import wait_until

from .conftest import Site

ONE = Claim("one", None, 1)
BEFORE_THE_PERMIT_IS_NOTED = ["before asked", "after asked", "before acquire", "after acquire"]


def fault(site: Site, tmp_path: Path, what: str) -> dict[str, str]:
    # Celery learns of the dead process at its next look, and what it does then is the same.
    return {"FAULT": what, "FAULT_FILE": str(tmp_path / "struck"), "LOOK_FOR_DEAD": "0.5"}


def ends_with(state: str, site: Site, tmp_path: Path, name: str) -> None:
    """Send the task of this name, whose process dies: it ends in this state, and its permit comes back."""
    resource = uuid4().hex
    result = site.send(name, "success", resource)
    wait_until(result.ready, 30, "it has a state")
    assert (tmp_path / "struck").exists()
    assert result.state == state
    assert site.counter.stats(resource)["completed"] == (state == "SUCCESS")
    site.wait_all_back(ONE, 15)


@pytest.mark.parametrize("when", BEFORE_THE_PERMIT_IS_NOTED)
@pytest.mark.parametrize(
    ("name", "state"), [("early", "SUCCESS"), ("late", "FAILURE"), ("late_lost", "SUCCESS")]
)
def test_child_dies_before_its_permit_is_noted(
    site: Site, tmp_path: Path, name: str, state: str, when: str
) -> None:
    """With early acks the task is delivered again: it had not begun. With late acks Celery decides."""
    site.lease = 60.0
    site.start(concurrency=1, env=fault(site, tmp_path, f"child: {when}"))
    ends_with(state, site, tmp_path, name)


@pytest.mark.parametrize(("name", "state"), [("early", "FAILURE"), ("late_lost", "SUCCESS")])
def test_child_dies_after_its_permit_was_noted(
    site: Site, tmp_path: Path, name: str, state: str
) -> None:
    """Celery's own window: with early acks the message is acknowledged, the task fails."""
    site.lease = 60.0
    site.start(concurrency=1, env=fault(site, tmp_path, "child: after held"))
    ends_with(state, site, tmp_path, name)


@pytest.mark.parametrize("name", ["early", "late"])
@pytest.mark.parametrize("when", ["before release", "after release", "after released"])
def test_child_dies_while_it_gives_its_permit_back(
    site: Site, tmp_path: Path, name: str, when: str
) -> None:
    """Without its note the main process releases, again if need be."""
    site.lease = 60.0
    site.start(concurrency=1, env=fault(site, tmp_path, f"child: {when}"))
    resource = uuid4().hex
    site.send(name, "success", resource)
    wait_until((tmp_path / "struck").exists, 30, "it struck")
    assert site.counter.stats(resource)["completed"] == 1
    site.wait_all_back(ONE, 15)


@pytest.mark.rabbitmq
@pytest.mark.parametrize(
    ("name", "when"),
    # Once the permit is noted, an early ack is on its way: Celery's own window, with either outcome.
    [
        ("late", "after held"),
        *((n, w) for n in ("early", "late") for w in BEFORE_THE_PERMIT_IS_NOTED),
    ],
)
def test_main_process_dies(rabbit_site: Site, tmp_path: Path, name: str, when: str) -> None:
    """The broker delivers again what was not acknowledged, and the lease ends."""
    site = rabbit_site
    victim = site.start(name="victim", concurrency=1, env=fault(site, tmp_path, f"main: {when}"))
    resource = uuid4().hex
    result = site.send(name, "success", resource)
    wait_until(lambda: not victim.running(), 20, "the victim is dead")
    site.start(name="heir", concurrency=1)
    wait_until(result.ready, 30, "the heir ran it")
    assert result.state == "SUCCESS"
    assert site.counter.stats(resource)["completed"] == 1
    site.wait_all_back(ONE, site.lease + 5)


@pytest.mark.rabbitmq
@pytest.mark.parametrize("when", ["before publish", "after publish"])
@pytest.mark.parametrize("name", ["early", "late"])
def test_main_process_dies_while_it_puts_a_message_back(
    rabbit_site: Site, tmp_path: Path, name: str, when: str
) -> None:
    """Before the broker has it, the old message remains; after, both do, and one of them runs."""
    site = rabbit_site
    site.start(name="other", concurrency=1, queues=["other"])
    publishes = {"semaphore_keep": False}
    env = fault(site, tmp_path, f"main: {when}")
    env["FAULT_DELAY_S"] = "0.3"  # in which no other thread may acknowledge the message
    victim = site.start(name="victim", concurrency=1, env=env, conf=publishes)
    site.occupy(queue="other")
    resource = uuid4().hex
    result = site.send(name, "success", resource)
    wait_until(lambda: not victim.running(), 20, "the victim is dead")
    heir = site.start(name="heir", concurrency=1, conf=publishes)
    wait_until(lambda: f"[{result.id}] waits" in heir.log(), 20, "it waits again")
    site.let_go()
    wait_until(result.ready, 40, "it ran")
    assert result.state == "SUCCESS"
    if when == "after publish":
        wait_until(lambda: "is not run twice" in heir.log_tail(500), 40, "the copy came")
    assert site.counter.stats(resource)["entries"] == 1
    site.wait_all_back(ONE, site.lease + 5)


def test_what_always_dies_before_its_permit_fails(site: Site, tmp_path: Path) -> None:
    """Delivered again once: a key function that kills its process must not do so for ever."""
    env = fault(site, tmp_path, "child: before acquire") | {"FAULT_TIMES": "4"}
    site.start(concurrency=1, env=env)
    result = site.send("early", "success", "one")
    wait_until(result.ready, 40, "it failed")
    assert (result.state, len(list(tmp_path.glob("struck*")))) == ("FAILURE", 2)
