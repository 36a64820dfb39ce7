"""A worker without the right to its granted queues."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu import Queue

from celery_semaphore.worker.main_process import granted_rights
from celery_semaphore.worker.main_process.granted_rights import permitted
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.rabbit import Rabbit

from ..conftest import Site
from ..messages.test_brokers import at_port
from ..messages.test_parking import PARK, done, ran_once

pytestmark = pytest.mark.rabbitmq
ALL, BUT_GRANTED = ".*", r"^((?!\.granted$).)*$"


@pytest.mark.parametrize("broker", ["redis", "amqp"])
def test_a_broker_that_hangs_is_not_waited_for(
    broker: str,
    start_proxy: Callable[[int], Proxy],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The event loop waits for the answer."""
    monkeypatch.setattr(granted_rights, "ANSWER_S", 0.3)
    url = request.getfixturevalue("rabbitmq_url" if broker == "amqp" else "valkey")
    url = url if isinstance(url, str) else url.url
    port = int(url.rpartition(":")[2].partition("/")[0])
    proxy = start_proxy(port)
    app = Celery("waits", broker=at_port(url, proxy.port), set_as_current=False)
    c: Any = SimpleNamespace(app=app, connection=app.connection_for_read())
    proxy.hang()
    since = time.monotonic()
    with pytest.raises(c.connection.connection_errors):
        permitted(c, [Queue("celery.granted")])
    assert time.monotonic() - since < 5


@pytest.mark.parametrize(
    ("configure", "read"), [(BUT_GRANTED, ALL), (ALL, BUT_GRANTED)], ids=["configure", "read"]
)
def test_it_starts_and_its_tasks_come_back_by_their_own_queue(
    rabbit_site: Site, rabbitmq_server: Rabbit, configure: str, read: str
) -> None:
    """A refusal closes the channel, for which Celery would end the worker."""
    user, host = f"u{secrets.token_hex(4)}", rabbit_site.broker.rpartition("/")[2]
    rabbitmq_server.control("add_user", user, "secret")
    rabbitmq_server.control("set_permissions", "-p", host, user, configure, ALL, read)
    rabbit_site.broker = rabbit_site.broker.replace("guest:guest", f"{user}:secret")
    worker = rabbit_site.start(concurrency=2, conf=PARK)
    (line,) = [line for line in worker.log().splitlines() if "no granted queue" in line]
    assert "'celery.granted'" in line
    assert "ACCESS_REFUSED" in line
    assert "WARNING" in line
    held = rabbit_site.occupy()
    parked = [rabbit_site.send("hold", 0.0, "w") for _ in range(5)]
    wait_until(lambda: rabbit_site.waiting() == 5, 20, "they are parked")
    rabbit_site.let_go()
    done([*held, *parked], 20)
    ran_once(rabbit_site, "w", parked, 1)
    added = rabbit_site.client.control.add_consumer("added", reply=True, timeout=1)
    assert added
    assert rabbit_site.send("free", queue="added").get(timeout=10)
    assert "Traceback" not in worker.log()
    assert worker.log().count("Connected to amqp") == 1
