"""What a task's message looks like when it comes back from the store: as it went in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from celery import chain, chord, group
from celery.canvas import StampingVisitor

from tests.support.lines import whole_lines
from tests.support.process import wait_until

from ..brokers import BOTH, EITHER
from ..conftest import Site
from .test_parking import PARK, done

OURS = {"eta", "semaphore_ticket"}  # headers
OF_ITS_WAY = {"delivery_info", "delivery_tag", "application_headers"}  # properties

CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "pickle and zlib": {"serializer": "pickle", "compression": "zlib"},
    "yaml": {"serializer": "yaml"},
    "expires": {"expires": 300},
    "expiration": {"expiration": 300},
    "priority": {"priority": 3},
    "shadow, custom header": {"shadow": "seen as", "headers": {"mine": "1", "é": ["b"]}},
    "no result kept": {"ignore_result": True},
    "time limits": {"time_limit": 50, "soft_time_limit": 40},
    "hidden arguments": {"argsrepr": "(secret)", "kwargsrepr": "{secret}"},
    "explicit queue": {"queue": "other"},
    "reply to, origin": {"reply_to": "somewhere"},
    "correlation, type": {"correlation_id": "c", "type": "t", "app_id": "a"},
    "delivered with eta": {"countdown": 0.01},
    "key and weight": {"semaphore_weight": 1},
}


class Stamps(StampingVisitor):
    def on_signature(self, sig: Any, **headers: Any) -> dict[str, Any]:
        return {"customer": "acme", "stamped_headers": ["customer"]}


def canvas(site: Site) -> list[Any]:
    sig = site.client.signature
    add, double = sig("limited_add", (1, 2)), sig("limited_add", (1,))
    linked = sig("limited_add", (5, 5), link=double.clone(), link_error=sig("free"))
    stamped = chain(add.clone(), double.clone())
    stamped.stamp(visitor=Stamps())
    header = [sig("limited_add", (n, n)) for n in range(3)]
    return [
        chain(add.clone(), double.clone(), group(double.clone(), double.clone())),
        group(header),
        chord(header, sig("limited_sum")),
        linked,
        stamped,
    ]


def deliveries(path: Path) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in whole_lines(path):
        came = json.loads(line)
        found.setdefault(came["id"], []).append(came)
    return found


def comparable(came: dict[str, Any]) -> dict[str, Any]:
    without = {name: value for name, value in came.items() if name != "route"}
    without["headers"] = {k: v for k, v in came["headers"].items() if k not in OURS}
    without["properties"] = {k: v for k, v in came["properties"].items() if k not in OF_ITS_WAY}
    return without


@pytest.mark.parametrize("broker", EITHER)
def test_the_message_is_unchanged(
    broker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Field by field, as the broker delivered it before and after the store."""
    site: Site = request.getfixturevalue(broker)
    accept = {"accept_content": ["json", "pickle", "yaml"]}
    env = {"C_FORCE_ROOT": "1", "LOG_MESSAGES": str(tmp_path / "messages")}
    site.start(concurrency=4, queues=["celery", "other"], conf=PARK | accept, env=env)
    site.client.conf.accept_content = accept["accept_content"]
    held = site.occupy()
    calls = {
        name: site.send("look", 1, "é", kwargs={"b": [2]}, **options)
        for name, options in CALLS.items()
    }
    wait_until(lambda: site.waiting() == len(calls), 20, "all are parked")
    built = [each.apply_async() for each in canvas(site)]
    wait_until(lambda: site.waiting() == len(calls) + 9, 20, "so are the first of each canvas")
    site.let_go()
    results = [r for name, r in calls.items() if name != "no result kept"]
    done([*held, *results], 60)
    wait_until(lambda: all(result.ready() for result in built), 60, "the canvas is done")
    names = {result.id: name for name, result in calls.items()}
    parked = {i: came for i, came in deliveries(tmp_path / "messages").items() if len(came) > 1}
    assert set(names) <= set(parked)
    assert len(parked) >= len(calls) + 7
    for task, (before, *after) in parked.items():
        (after_it,) = after
        assert comparable(after_it) == comparable(before), names.get(task)
        assert set(after_it["headers"]) == set(before["headers"]) | OURS
        assert after_it["route"] == f"{before['route']}.granted".replace("celery/", "/")
    for result in results:
        seen = result.get()
        assert seen["retries"] == 0


@pytest.mark.parametrize("queue", ["celery", "other"])
@pytest.mark.parametrize("broker", BOTH)
def test_a_retry_goes_to_its_own_queue(
    broker: str, queue: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Though the message that it retries came by another; and its only retry is not spent."""
    site: Site = request.getfixturevalue(broker)
    env = {"LOG_MESSAGES": str(tmp_path / "messages")}
    site.start(concurrency=2, queues=["celery", "other"], conf=PARK, env=env)
    site.occupy()
    result = site.send("retries", queue=queue, task_id=uuid4().hex)
    wait_until(lambda: site.waiting() == 1, 20, "it is parked")
    site.let_go()
    seen = result.get(timeout=30)
    assert seen["retries"] == 1
    assert seen["delivery_info"]["routing_key"] == queue
    routes = [came["route"] for came in deliveries(tmp_path / "messages")[result.id]]
    came_by = [route.rpartition("/")[2] for route in routes]
    assert came_by[:3] == [queue, f"{queue}.granted", queue]  # and perhaps it waited again
