"""Granted messages that are rejected for another delivery: they go to their home queues, and none is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core.permit import Permit
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.ticket_header import TICKET, sent_back
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

from ..conftest import Site, queued
from ..requests import limited, request_of
from .test_brokers import at_port
from .test_parking import BROKERS, ONE, PARK, done
from .test_parking_queues import routes

X7 = Ticket("x:7b", 9, 1795325987266815)
GRANTED = sent_back("x:7b", 1, X7, 1, granted=[ONE])


def parked_and_granted(site: Site, name: str, how: str, **options: Any) -> Any:
    """The result of a task that was parked, and whose permit is free then."""
    store = site.store()
    assert isinstance(store.acquire([ONE], "outside"), Permit)
    site.start(concurrency=1, conf=PARK | {"semaphore_publish_timeout": 0.3}, **options)
    result = site.send(name, how, "w")
    wait_until(lambda: store.snapshot("one").waiting == 1, 20, "it is parked")
    store.release("outside", [ONE])
    store.close()
    return result


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize(("name", "how"), [("late", "requeue"), ("late_lost", "kill")])
def test_goes_home(
    broker: str, name: str, how: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """By its granted queue it would come before all others, again and again."""
    site: Site = request.getfixturevalue(broker)
    log = tmp_path / "log"
    result = parked_and_granted(site, name, how, env={"LOG_MESSAGES": str(log)})
    done([result], 30)
    assert result.get() == "again"
    assert routes(log, result.id)[:3] == ["celery", "celery.granted", "celery"]
    assert site.counter.stats("w")["entries"] == 2
    site.wait_all_back(ONE, 10)


def test_stays_with_the_broker_until_that_has_it_at_home(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """A broker that takes no message at that moment loses none."""
    proxy = start_proxy(int(site.broker.rpartition(":")[2].partition("/")[0]))
    env = {"PUBLISH_BY": at_port(site.broker, proxy.port)}
    result = parked_and_granted(site, "late", "requeue", env=env)
    worker = site.workers[0]
    wait_until(lambda: site.inside("w") == 1, 20, "it runs")
    proxy.cut()
    wait_until(lambda: "waiting tasks stay here" in worker.log(), 20, "it cannot be published")
    assert site.all_back(ONE)
    assert [each["id"] for each in queued(valkey)] == [result.id], "unacknowledged"
    proxy.restore()
    done([result], 30)
    assert site.counter.stats("w")["entries"] == 2
    assert queued(valkey) == []


class Broker:
    """Notes what a request does with its message."""

    def __init__(self, app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[Any] = []
        limiter = limiter_of(app)
        limiter.worker.granted = frozenset({"celery"})
        monkeypatch.setattr(limiter.mover, "put_back", lambda _, *put: self.did.append(put))

    def request(self, app: Celery, queue: str = "celery.granted", **options: Any) -> Any:
        request = request_of(limited(app, **options), queue, **{TICKET: GRANTED})
        request._on_ack = lambda *_: self.did.append("acknowledged")
        request._on_reject = lambda *_: self.did.append("returned")
        return request


@pytest.fixture
def broker(app: Celery, monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(app, monkeypatch)


def test_is_acknowledged_when_the_broker_has_the_new_one(app: Celery, broker: Broker) -> None:
    """Whatever Celery replies meanwhile: it acknowledges an early-ack task at its end."""
    request = broker.request(app, acks_late=True)
    request.permit_held(0.0)
    request.reject(requeue=True)
    assert broker.did == [], "its process may still have the permit"
    request._ended(reported=True)
    request._ended(reported=True)
    request.acknowledge()
    request.reject()
    assert broker.did == [(None, 0.0)], "it begins a new wait"
    request.on_put_back()
    assert broker.did[1:] == ["acknowledged"]


def test_keeps_its_grant_if_it_had_no_permit(app: Celery, broker: Broker) -> None:
    request = broker.request(app)
    request.reject(requeue=True)
    request._ended(reported=True)
    assert broker.did == [(X7, 0.0)]


def test_is_returned_if_it_cannot_be_published(app: Celery, broker: Broker) -> None:
    for reject in (True, False):
        request = broker.request(app, acks_late=True)
        if reject:
            request.reject(requeue=True)
        request.return_to_broker()
        assert broker.did == ["returned"]
        broker.did.clear()


def test_only_one_of_a_granted_queue_goes_home(app: Celery, broker: Broker) -> None:
    request = broker.request(app, "celery")
    request.reject(requeue=True)
    request._ended(reported=True)
    assert broker.did == ["returned"]


def test_one_that_cannot_be_run_again_goes_home(app: Celery, broker: Broker) -> None:
    """M5, in a worker without a channel of its own for granted queues."""
    request = broker.request(app)
    request.deliver_elsewhere()
    assert broker.did == [(X7, 0.0)]


def test_waits_for_its_process_to_be_gone(
    app: Celery, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that the new message would be refused, since the old one may be running."""
    limiter = limiter_of(app)
    limiter.notes = SimpleNamespace(drain=lambda _: False)  # type: ignore[assignment]
    waits: list[Any] = []
    monkeypatch.setattr(limiter.process.releaser, "when", lambda *when: waits.append(when))
    request = broker.request(app, acks_late=True)
    request.permit_held(0.0)
    request.worker_pid = 2**22 + 1
    request.reject(requeue=True)
    request._ended(reported=False)
    assert broker.did == []
    assert len(waits) == 2, "the permit is released, and the message goes home"
    limiter.notes = None
