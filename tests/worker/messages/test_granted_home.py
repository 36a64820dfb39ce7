"""Granted messages that are rejected for another delivery: they go to their home queues, and none is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core import releaser as releaser_module
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import HandedOn
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.main_process import request as request_module
from celery_semaphore.worker.messages.ticket_header import TICKET, sent_back
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer

from ..brokers import EITHER
from ..conftest import Site, queued, valkey_only
from ..requests import limited, request_of
from .test_brokers import at_port
from .test_parking import ONE, PARK, done
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


@pytest.mark.parametrize("broker", EITHER)
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
    site.wait_all_back(ONE, 10)
    assert [each["id"] for each in queued(valkey)] == [result.id], "unacknowledged"
    proxy.restore()
    done([result], 30)
    assert site.counter.stats("w")["entries"] == 2
    wait_until(lambda: queued(valkey) == [], 10, "it is acknowledged")  # its result comes before


class Broker:
    """Notes what a request does with its message."""

    def __init__(self, app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[Any] = []
        limiter = limiter_of(app)
        limiter.worker.homes = frozenset({"celery"})
        monkeypatch.setattr(limiter.mover, "put_back", lambda _, *put: self.did.append(put))
        self.releaser = limiter.process.releaser

    def settle(self) -> None:
        """Let the releaser do what it can do now."""
        for _ in range(5):
            self.releaser._event.set()
            self.releaser._step()

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
    broker.settle()
    assert broker.did == [(None, 0.0)], "it begins a new wait"
    request.on_put_back()
    assert broker.did[1:] == ["acknowledged"]


def test_gives_its_grant_back_if_it_had_no_permit(
    app: Celery, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps its place; a later release by its ticket would end the wait that it begins anew."""

    def release(holder: Any, *_: Any) -> HandedOn:
        broker.did.append(holder)
        return HandedOn()

    monkeypatch.setattr(broker.releaser._store, "release", release)
    request = broker.request(app)
    request.reject(requeue=True)
    request._ended(reported=True)
    broker.settle()
    assert broker.did == [request.holder, X7, (X7, 0.0)]


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
    broker.settle()
    assert broker.did == ["returned"]


def test_one_that_cannot_be_run_again_goes_home(app: Celery, broker: Broker) -> None:
    """M5, in a worker without a channel of its own for granted queues."""
    request = broker.request(app)
    request.deliver_elsewhere()
    broker.settle()
    assert broker.did == [(X7, 0.0)]


@pytest.fixture
def died(app: Celery, broker: Broker) -> Iterator[Callable[[], Any]]:
    """Return a request with a permit, rejected since its process has died."""
    limiter = limiter_of(app)
    limiter.notes = SimpleNamespace(drain=lambda _: False)  # type: ignore[assignment]

    def died() -> Any:
        request = broker.request(app, acks_late=True)
        request.permit_held(0.0)
        request.worker_pid = 2**22 + 1
        request.reject(requeue=True)
        return request

    yield died
    limiter.notes = None


def test_waits_for_its_process_to_be_gone(
    broker: Broker, died: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before that the new message would be refused, since the old one may be running."""
    gone: list[int] = []
    monkeypatch.setattr(request_module, "is_gone", gone.__contains__)
    request = died()
    request._ended(reported=False)
    broker.settle()
    assert broker.did == []
    gone.append(request.worker_pid)
    broker.settle()
    assert broker.did == [(None, 0.0)]


def test_goes_home_once_though_its_end_is_told_twice(
    broker: Broker, died: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first end may be told before Celery has rejected the message."""
    monkeypatch.setattr(request_module, "is_gone", lambda _: True)
    request = died()
    request._returned = False
    request._ended(reported=False)
    broker.settle()
    assert broker.did == []
    request._returned = True
    request._ended(reported=False)
    broker.settle()
    assert broker.did == [(None, 0.0)]
    request._ended(reported=True)
    broker.settle()
    assert broker.did == [(None, 0.0)]


@pytest.mark.parametrize("reported", [True, False])
def test_comes_after_a_release_that_fails_at_first(
    broker: Broker, died: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, *, reported: bool
) -> None:
    """Others overtake it. If it came later, it would end the wait that the new message began."""
    store, failures = broker.releaser._store, 4
    release = store.release

    def at_last(holder: Any, *args: Any) -> Any:
        nonlocal failures
        if failures:
            failures -= 1
            raise StoreUnavailable("away")
        broker.did.append(holder)
        return release(holder, *args)

    monkeypatch.setattr(store, "release", at_last)
    monkeypatch.setattr(store, "calls_at_once", 2)  # so that it makes each release by itself,
    monkeypatch.setattr(releaser_module, "RETRY_PAUSE_S", 0.05)
    request = died()
    for other in ("a", "b"):
        broker.releaser.release(other, [Claim(other, None, 1)])  # as it is of another resource
    request._ended(reported=reported)
    broker.releaser.start()
    wait_until(lambda: (None, 0.0) in broker.did, 10, "it goes home")
    broker.releaser.close(5)
    assert sorted(map(str, broker.did)) == sorted(["a", "b", request.holder, "(None, 0.0)"])
    assert broker.did.index(request.holder) < broker.did.index((None, 0.0))


def test_comes_after_a_release_that_is_given_up(
    broker: Broker, died: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease has ended by then."""
    store = broker.releaser._store

    def away(*_: Any) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(store, "release", away)
    monkeypatch.setattr(store, "lease", 0.3)
    died()._ended(reported=True)
    since = time.monotonic()
    broker.releaser.start()
    wait_until(lambda: broker.did, 10, "it goes home")
    assert time.monotonic() - since >= 0.3
    broker.releaser.close(5)
    assert broker.did == [(None, 0.0)]


@valkey_only
def test_stays_while_its_permit_cannot_be_released(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy], tmp_path: Path
) -> None:
    """The process is gone at once, and the store comes back later."""
    proxy, log = start_proxy(valkey.port), tmp_path / "log"
    site.store_url = site.store_url.replace(str(valkey.port), str(proxy.port))
    site.lease = 60.0
    result = parked_and_granted(site, "late_lost", "sleep", env={"LOG_MESSAGES": str(log)})
    (worker,) = site.workers
    wait_until(lambda: site.inside("w") == 1, 20, "it runs")
    proxy.cut()
    worker.kill_child()
    worker.wait_until(lambda: "WorkerLostError" in worker.log(), 20, "its process is gone")
    time.sleep(1.5)
    assert routes(log, result.id) == ["celery", "celery.granted"]
    proxy.restore()
    done([result], 30)
    assert result.get() == "again"
    assert routes(log, result.id)[2:] == ["celery"]
    site.wait_all_back(ONE, 10)
