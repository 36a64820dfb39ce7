"""Brokers that are several: one to read from and one to write to."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.process import wait_until
from tests.support.rabbit import Rabbit
from tests.support.servers import ValkeyServer

from .conftest import Site
from .test_parking import BROKERS, PARK, done, ran_once


def another(broker: str, request: pytest.FixtureRequest) -> str:
    """A broker of the same kind, to which no worker listens."""
    if broker == "site":
        valkey: ValkeyServer = request.getfixturevalue("valkey")
        return valkey.database(7)
    rabbit: Rabbit = request.getfixturevalue("rabbitmq_server")
    return rabbit.virtual_host()


@pytest.mark.parametrize("conf", [{}, PARK], ids=["requeue", "park"])
@pytest.mark.parametrize("broker", BROKERS)
def test_what_waits_stays_with_the_broker_that_workers_read(
    broker: str, conf: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    site: Site = request.getfixturevalue(broker)
    two = {"broker_read_url": site.broker, "broker_write_url": another(broker, request)}
    site.start(concurrency=2, conf=conf | two)
    held = site.occupy()
    results = [site.send("hold", 0.0, "w") for _ in range(5)]
    wait_until(lambda: site.waiting() == 5, 20, "they wait")
    site.let_go()
    done([*held, *results], 20)
    ran_once(site, "w", results, 1)
