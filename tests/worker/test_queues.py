"""Queues of other kinds: a waiting message goes back to the one it came from, and to no other."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.support.process import wait_until

from .conftest import Site

QUORUM = {"task_default_queue_type": "quorum", "task_default_exchange_type": "topic"}


def waits(shortest: float, longest: float) -> dict[str, float]:
    return {"semaphore_requeue_delay": shortest, "semaphore_requeue_max_delay": longest}


@pytest.fixture
def quorum_site(rabbit_site: Site) -> Site:
    rabbit_site.client.conf.update(QUORUM)
    return rabbit_site


@pytest.mark.rabbitmq
@pytest.mark.parametrize("name", ["call", "call_late"])
def test_quorum_queues(quorum_site: Site, name: str) -> None:
    for worker in ("a", "b"):
        quorum_site.start(name=worker, concurrency=4, conf=QUORUM | waits(0.3, 4))
    results = [quorum_site.send(name, 0.5, "api") for _ in range(60)]
    wait_until(lambda: all(r.ready() for r in results), 100, "all are done")
    stats = quorum_site.counter.stats("api")
    assert 1 < stats["max_inside"] <= 5
    assert [stats["tasks"][result.id]["entries"] for result in results] == [1] * 60


@pytest.mark.rabbitmq
def test_a_delay_is_kept_by_the_broker_again_and_again(quorum_site: Site) -> None:
    """RabbitMQ drops what seems to go in circles through its delays."""
    worker = quorum_site.start(concurrency=4, conf=QUORUM | waits(3.2, 3.4))
    alike = [uuid4().hex for _ in "12"]
    at_once = look(quorum_site, alike[0])
    quorum_site.send("hold", 8.0, "held")
    wait_until(lambda: quorum_site.inside("held") == 1, 20, "the permit is taken")
    waited = look(quorum_site, alike[1])
    assert worker.log().count(f"look[{alike[1]}] waits 3.2") >= 2
    assert without_route(waited, alike[1]) == without_route(at_once, alike[0])


def look(site: Site, task_id: str) -> dict[str, Any]:
    result = site.send("look", 1, kwargs={"b": [2]}, task_id=task_id, headers={"mine": "1"})
    found: dict[str, Any] = result.get(timeout=30)
    return found


def without_route(seen: dict[str, Any], own: str) -> str:
    """All but how it came: a delay that the broker keeps has exchanges and keys of its own."""
    kept = {k: v for k, v in seen.items() if k not in ("delivery_info", "properties")}
    return repr(sorted(kept.items())).replace(own, "<id>")
