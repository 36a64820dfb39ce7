"""Waits that end in the store without a permit: revoked, expired, timed out; and limits that are raised."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest
from celery.result import AsyncResult
from celery.worker.state import revoked

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.store import Outgoing
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.worker.messages.park import Park
from tests.support.process import wait_until

from ..brokers import EITHER
from ..conftest import Site
from .test_parking import ONE, PARK, done

SWEEPS = 5.0  # seconds: two sweeps of two seconds each, and some


def parked(site: Site, *task: Any, **options: Any) -> tuple[list[AsyncResult], AsyncResult]:
    """The results of a task that has the permit, and of this one, which waits for it in the store."""
    site.start(concurrency=2, conf=PARK)
    held = site.occupy()
    result = site.send(*task, **options)
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    return held, result


def never_ran(site: Site, held: list[Any]) -> None:
    """What waited for the held permit left the store without it."""
    assert not held[0].ready()
    wait_until(lambda: site.waiting() == 0, 5, "it left the store")
    assert site.counter.stats("never")["entries"] == 0


@pytest.mark.parametrize("broker", EITHER)
def test_revoked_while_parked(broker: str, request: pytest.FixtureRequest) -> None:
    """It ends at once, though nobody releases, and one worker only says so."""
    site: Site = request.getfixturevalue(broker)
    workers = [site.start(name=name, concurrency=2, conf=PARK) for name in "abc"]
    held = site.occupy()
    never, others = site.send("hold", 0, "never"), [site.send("hold", 0, "w") for _ in range(3)]
    wait_until(lambda: site.waiting() == 4, 20, "they are parked")
    never.revoke()
    wait_until(never.ready, SWEEPS, "it has a state")
    assert never.state == "REVOKED"
    wait_until(lambda: site.waiting() == 3, 5, "it left the store")
    assert not held[0].ready()
    site.let_go()
    done([*held, *others], 30)
    assert site.counter.stats("never")["entries"] == 0
    said = [worker.log().count(f"Discarding revoked task: hold[{never.id}]") for worker in workers]
    assert sum(said) == 1
    site.wait_all_back(ONE, 5)


def test_many_revoked_at_once(site: Site) -> None:
    site.start(concurrency=2, conf=PARK)
    held = site.occupy()
    results = [site.send("hold", 0, "never") for _ in range(120)]
    wait_until(lambda: site.waiting() == 120, 20, "they are parked")
    site.client.control.revoke([result.id for result in results])
    wait_until(lambda: all(result.ready() for result in results), 10, "they have a state")
    assert {result.state for result in results} == {"REVOKED"}
    never_ran(site, held)


@pytest.mark.parametrize("broker", EITHER)
def test_expires_while_parked(broker: str, request: pytest.FixtureRequest) -> None:
    site: Site = request.getfixturevalue(broker)
    held, result = parked(site, "hold", 0, "never", expires=2.0)
    wait_until(result.ready, 2 + SWEEPS, "it has a state")
    assert result.state == "REVOKED"
    never_ran(site, held)


@pytest.mark.parametrize("broker", EITHER)
def test_wait_timeout_while_parked(broker: str, request: pytest.FixtureRequest) -> None:
    site: Site = request.getfixturevalue(broker)
    held, result = parked(site, "impatient", "never")
    wait_until(result.ready, 1.5 + SWEEPS, "it gave up")
    assert not held[0].ready()
    assert type(result.result).__name__ == "SemaphoreTimeout"
    said = r"waited \d\.\d s for a permit of semaphore 'one': 1 of 1 in use"
    assert re.fullmatch(said, str(result.result))
    wait_until(lambda: site.waiting() == 0, 5, "it left the store")
    assert site.counter.stats("never")["entries"] == 0


def test_a_raised_limit_hands_on_at_once(site: Site) -> None:
    """By an operator who has no broker: a worker's sweep sends what was handed on."""
    site.start(concurrency=8, conf=PARK)
    held = site.occupy()
    results = [site.send("hold", None, "w") for _ in range(6)]
    wait_until(lambda: site.waiting() == 6, 20, "they are parked")
    site.store().set_limit(4, "one")
    wait_until(lambda: site.inside("w") == 3, 4, "a sweep found them")
    site.store().set_limit(0, "one")
    site.let_go("w")
    wait_until(lambda: site.inside("w") == 0, 10, "those who ran are done")
    assert site.waiting() == 3, "paused"
    site.store().set_limit(None, "one")
    site.let_go()
    done([*held, *results], 40)
    assert site.counter.stats("w")["max_inside"] == 3
    site.wait_all_back(ONE, 5)


def test_a_client_without_a_broker_hands_on(site: Site) -> None:
    site.lease = 60.0
    store = site.store()
    store.acquire([ONE], "outside")
    site.start(concurrency=2, conf=PARK)
    results = [site.send("hold", 0, "w") for _ in range(3)]
    wait_until(lambda: site.waiting() == 3, 20, "they are parked")
    store.release("outside", [ONE])
    done(results, SWEEPS)
    store.close()


def test_a_revoke_touches_no_other_line(site: Site) -> None:
    """Those who wait in other lines are not touched."""
    site.start(concurrency=2, conf=PARK)
    site.occupy()
    others = [site.send("export", "t", 0.1) for _ in range(6)]
    never = site.send("hold", 0, "never")
    never.revoke()
    done(others, 20)
    wait_until(never.ready, 10, "it has a state")
    site.wait_all_back(Claim("tenant", "t", 2), 5)


class Delivered:
    """A delivery that was refused, and its message."""

    holder = "h"
    name, semaphores = "task", ("one",)
    body, content_type, content_encoding = b"[]", "application/json", "utf-8"
    headers: ClassVar[dict[str, Any]] = {}
    properties: ClassVar[dict[str, Any]] = {}
    refusals = 1

    def __init__(self, task_id: str) -> None:
        self.id = task_id
        self.message = self
        self.acknowledged = False

    def came_from(self) -> str:
        return "celery"

    comes_back_to = came_from

    def may_be_moved(self) -> bool:
        return True

    def on_put_back(self) -> None:
        raise AssertionError

    def parks(self) -> bool:
        return True

    def on_parked(self) -> None:
        self.acknowledged = True

    def return_to_broker(self) -> None:
        raise AssertionError


def test_revoked_before_it_is_attached(site: Site) -> None:
    """Each worker's sweep has looked for it already, and found nothing."""
    store, outgoing = site.store(), list[Outgoing]()
    store.acquire([ONE], "a")
    refusal = store.acquire([ONE], "b", Wait(Kind.PARK))
    assert isinstance(refusal, Refusal)
    assert refusal.ticket
    request: Any = Delivered("revoked-early")
    revoked.add(request.id)
    park = Park(
        store,
        request,
        refusal.ticket,
        [ONE],
        delay=1.0,
        ends_in=None,
        largest=1000,
        longest=60.0,
        broker="",
        outgoing=outgoing.append,
    )
    try:
        park.run()
    finally:
        revoked.discard(request.id)
    assert request.acknowledged
    assert outgoing == [{"one"}]
    (grant,) = store.take(outgoing[0])
    assert (grant.ticket, grant.token) == (refusal.ticket, 0)
    store.close()
