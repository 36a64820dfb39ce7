"""A server dies between two steps of parking, and is back with its data: no waiting task is lost or runs twice.

It is killed while the worker stands at the step. The worker lives on, and finds out by its next command. The rows are
those of the table in ``worker/messages/move_job.py``, by default: ``on_saturated="wait"``.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from celery.result import AsyncResult
from redis import Redis

from tests.conftest import need
from tests.support.counter import Counter, CounterServer
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.rabbit import RabbitServer
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker

from ..conftest import Site, site_on, valkey_only
from .test_parking import ONE
from .test_parking_windows import all_ran_once

WAIT: dict[str, Any] = {"semaphore_on_saturated": "wait"}
AWAY_S = 0.5  # before the server is started again
# With a lease of six seconds: a grace, the end of a grant that was not taken up, and Celery's pauses between connects.
GO_ON_S = 30.0
# What kombu and Celery log with a traceback when the broker is away.
OF_THE_BROKER = ("Couldn't ack", "Connection to broker lost")
# What it left -> the step that the worker stands at.
PARKING = {"refused": "before attach", "attached": "after attach"}
HANDING_ON = {
    "acknowledged": "before release",
    "granted": "after release",
    "taken": "after take",
    "published": "after publish",
    "reported": "after sent",
    "delivered": "before acquire",
    "taken up": "after acquire",
}
STEPS = PARKING | HANDING_ON
ALL = [(place, left) for place in ("both", "valkey", "postgres") for left in STEPS]
# The store lives on; where the broker confirms.
ALL += [("rabbitmq", left) for left in ("attached", "taken", "published")]
TELLING = {("both", "attached"), ("both", "published"), ("postgres", "granted")}
pytestmark = valkey_only


@dataclass
class Place:
    """A site, and the server of it that dies."""

    site: Site
    server: ValkeyServer | PostgresServer | RabbitServer


@pytest.fixture
def place(
    request: pytest.FixtureRequest,
    valkey: ValkeyServer,
    counter_server: CounterServer,
    counter: Counter,
) -> Iterator[Place]:
    kept = {"appendonly": "yes", "appendfsync": "always"}
    with ExitStack() as stack:
        store: ValkeyServer | PostgresServer
        if request.param == "postgres":
            need(PostgresServer)
            store = stack.enter_context(PostgresServer())
            store.install()
            urls = {"store_url": store.url}
        else:
            store = stack.enter_context(ValkeyServer(**kept))
            urls = {"store_url": store.database(1)}
        server: ValkeyServer | PostgresServer | RabbitServer = store
        if request.param == "both":
            urls["broker"] = store.url
        elif request.param == "rabbitmq":
            need(RabbitServer)
            server = stack.enter_context(RabbitServer())
            urls["broker"] = server.virtual_host()
        for site in site_on(valkey, counter_server, conf=WAIT, **urls):
            if request.param == "rabbitmq":  # what it has not confirmed it may lose
                site.client.conf.broker_transport_options = {"confirm_publish": True}
            yield Place(site, server)


def marked(place: str, left: str) -> Any:
    marks = [] if (place, left) in TELLING else [pytest.mark.soak]
    if place == "rabbitmq":
        marks.append(pytest.mark.rabbitmq)
    return pytest.param(place, left, marks=marks, id=f"{place}-{left}")


@pytest.mark.slow
@pytest.mark.parametrize(("place", "left"), [marked(*each) for each in ALL], indirect=["place"])
def test_a_server_dies(place: Place, left: str, tmp_path: Path) -> None:
    site, struck, goes_on = place.site, tmp_path / "struck", tmp_path / "goes on"
    site.lease = 6.0  # a server that starts on a busy machine must not take all of it
    struck.touch()  # it does not strike yet
    fault = {
        "FAULT": f"main: {STEPS[left]}",
        "FAULT_FILE": str(struck),
        "FAULT_GOES_ON": str(goes_on),
    }
    worker = site.start(concurrency=2, env=fault)
    # RabbitMQ delivers a running task with late acks again, which Celery runs twice, limited or not.
    holds = "hold_late" if site.broker.startswith("redis") else "hold"
    results = site.occupy(task=holds, resource="w")
    if left in PARKING:
        struck.unlink()
    results += [site.send(name, "success", "w") for name in ("early", "late", "early", "late")]
    if left in HANDING_ON:
        wait_until(lambda: worker.log().count("is parked") == 4, 20, "all are parked")
        wait_until(lambda: unacknowledged(site) == 1, 20, "and acknowledged, but the one that runs")
        struck.unlink()
        site.let_go("w")
    # kombu loses a message that its server gave out, and is killed before it has noted whom.
    wait_until(lambda: worker.log().count("] received") >= 5, 20, "the worker has all")
    wait_until(struck.exists, 20, "the worker stands at the step")
    place.server.kill()
    goes_on.touch()
    time.sleep(AWAY_S)
    place.server.start()
    site.let_go("w")
    go_on(site, worker, results)


def unacknowledged(site: Site) -> int:
    if not site.broker.startswith("redis"):
        return 1  # RabbitMQ is not asked: that takes seconds
    with Redis.from_url(site.broker) as broker:
        return int(broker.hlen("unacked"))


def go_on(site: Site, worker: CeleryWorker, results: list[AsyncResult]) -> None:
    wait_until(lambda: all(r.ready() for r in results), GO_ON_S, "all that wait have gone on")
    all_ran_once(site, results)
    site.wait_all_back(ONE, site.lease + 5)
    records = re.split(r"^(?=\[\d{4}-)", worker.log(), flags=re.MULTILINE)
    traced = [each for each in records if "Traceback" in each]
    assert not [each for each in traced if not any(words in each for words in OF_THE_BROKER)]
