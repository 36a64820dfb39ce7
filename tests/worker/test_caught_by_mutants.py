"""What only mutants showed to be untested: see tests/mutants."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from celery import Celery
from kombu.utils.imports import symbol_by_name

from celery_semaphore import LimitedTask
from celery_semaphore.core.breaker import CircuitBreaker
from celery_semaphore.core.events import Announcer, Event, PermitReleased
from celery_semaphore.core.key import MAX_NAME_BYTES
from celery_semaphore.core.lease import LeaseKeeper
from celery_semaphore.core.permit import Claim, Permit, Renewal
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.main_process.bootstep import SemaphoreConsumerStep
from celery_semaphore.worker.messages.headers import EPOCH, HOLDER
from celery_semaphore.worker.messages.message import message_id
from celery_semaphore.worker.messages.route import Route
from celery_semaphore.worker.permits.ledger import Ledger
from celery_semaphore.worker.permits.loop_waker import LoopWaker
from celery_semaphore.worker.permits.note import NotePipe
from celery_semaphore.worker.permits.process import is_gone
from celery_semaphore.worker.permits.releaser import Releaser
from celery_semaphore.worker.pool_process.refusal import Refused
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker

from .conftest import Site, queued

ONE = Claim("one", None, 1)


def permit(holder: str, *claims: Claim) -> Permit:
    return Permit(holder, 1, claims, 0.0, 30.0, 1)


class FakeStore:
    """Renews and releases; how, the test decides."""

    lease = 30.0

    def __init__(self) -> None:
        self.renewed: list[str] = []
        self.released: list[tuple[str, list[str]]] = []
        self.failures = 0
        self.after_renew = lambda: None

    def renew(self, permits: Any) -> dict[str, Renewal]:
        self.renewed = [each.holder for each in permits]
        self.after_renew()
        if self.failures:
            raise StoreUnavailable("hung")
        return dict.fromkeys(self.renewed, Renewal.OK)

    def release(self, holder: str, claims: Any, message_id: Any = None) -> frozenset[str]:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("hung")
        self.released.append((holder, [claim.resource for claim in claims]))
        return frozenset()

    def reap(self, limit: int = 100) -> frozenset[str]:
        return frozenset()


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def app() -> Celery:
    app = Celery("caught", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    return app


def limited(app: Celery) -> Any:
    def body() -> None: ...

    app.task(base=LimitedTask, name="limited", semaphore="one", limit=1, shared=False)(body)
    app.finalize()
    return app.tasks["limited"]


# -- in this process


def test_the_breaker() -> None:
    clock = Clock()
    breaker = CircuitBreaker(1.0, 15.0, clock)
    breaker.check()
    pauses = []
    for _ in range(6):
        breaker.failed(StoreUnavailable("hung"))
        with pytest.raises(StoreUnavailable, match="hung"):
            breaker.check()
        since = clock.now
        while clock.now < since + 100:
            clock.now += 0.5
            try:
                breaker.check()
            except StoreUnavailable:
                continue
            break
        pauses.append(clock.now - since)
    assert pauses == [1, 2, 4, 8, 15, 15]
    breaker.succeeded()
    breaker.failed(StoreUnavailable("hung"))
    clock.now += 1
    breaker.check()


def test_a_renewal_counts_from_before_it_was_sent() -> None:
    """Its answer came late, and the store goes silent: the lease must not seem longer than it is."""
    clock, store, events = Clock(), FakeStore(), list[Event]()
    announce = Announcer()
    announce.subscribe(events.append)
    keeper = LeaseKeeper(store, announce, clock=clock)  # type: ignore[arg-type]

    def slow() -> None:
        clock.now += 15

    keeper.add(permit("a"))
    store.after_renew = slow
    keeper.tick()
    store.after_renew = lambda: None
    store.failures = 1
    clock.now += 11
    keeper.tick()
    assert events == []
    clock.now += 2
    keeper.tick()
    assert len(events) == 1


def test_what_ended_is_not_announced_as_lost() -> None:
    store, events = FakeStore(), list[Event]()
    announce, clock = Announcer(), Clock()
    announce.subscribe(events.append)
    keeper = LeaseKeeper(store, announce, clock=clock)  # type: ignore[arg-type]
    releaser = Releaser(store)  # type: ignore[arg-type]
    ledger = Ledger(keeper, releaser, announce, lambda _: None)
    for holder in "ab":
        ledger.asked(holder, [ONE])
        ledger.held(permit(holder), clock.now)
    ledger.ended("a")
    clock.now += 11
    keeper.tick()
    assert store.renewed == ["b"]
    assert [type(event) for event in events] == [PermitReleased]


def test_an_unanswered_release_is_repeated() -> None:
    store = FakeStore()
    store.failures = 2
    releaser = Releaser(store)  # type: ignore[arg-type]
    releaser.release("a", [ONE])
    releaser.start()
    wait_until(lambda: store.released == [("a", ["one"])], 10, "it is released")
    releaser.close(5)


def noted(*claims: Claim) -> list[Claim]:
    """What a worker's main process knows of the claims that a pool process asked for."""
    found = list[Claim]()

    class PermitObserver:
        def asked(self, holder: str, claims: Any) -> None:
            found.extend(claims)

        def held(self, permit: Permit, since: float) -> None: ...

    pipe = NotePipe()
    try:
        pipe.asked("x" * 36, claims)
        assert pipe.drain(PermitObserver())
    finally:
        pipe.close()
    return found


@pytest.mark.parametrize("key", [None, "x", "x" * 10_000, "é\n" * 3000])
def test_a_note_of_a_long_key(key: str | None) -> None:
    """What is released is what was acquired, however long its key is."""
    claim = Claim("api", key, 3, 2)
    assert [(c.resource, c.limit, c.weight) for c in noted(claim)] == [(claim.resource, 3, 2)]


@pytest.mark.parametrize("length", [MAX_NAME_BYTES, MAX_NAME_BYTES + 1])
def test_a_note_of_many_limits_with_long_keys(length: int) -> None:
    """Beside the resource it holds only the beginning of each key, and so has room for more of them."""
    claims = [Claim(f"api{n:02}", "x" * length, 3) for n in range(17)]
    assert [c.resource for c in noted(*claims)] == [c.resource for c in claims]


def test_the_alarm_is_heard() -> None:
    waker = LoopWaker()

    def rings() -> bool:
        return bool(select.select([waker.fileno()], [], [], 0)[0])

    assert not rings()
    for _ in range(100_000):  # more than a pipe takes: ringing must not block
        waker.wake()
    assert rings()
    waker.clear()
    assert not rings()


def test_an_early_ack_is_sent_while_the_task_runs(site: Site, valkey: ValkeyServer) -> None:
    """The process rings, and nobody else makes the main process read that it has its permit."""
    # A session of held tasks wakes the loop, too, three times in a lease.
    site.start(concurrency=1, env={"REST_LONG": "1"}, conf={"semaphore_hold": False})
    site.occupy()
    with valkey.client() as broker:
        wait_until(lambda: broker.hlen("unacked") == 0, 10, "its message is acknowledged")
    assert site.inside("held") == 1


def test_a_message_stays_compressed_and_expires_as_before() -> None:
    message = SimpleNamespace(
        headers={"id": "x", "compression": "application/x-gzip"},
        properties={"expiration": "90000", "correlation_id": "x"},
        body=b"[]",
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": "celery"},
    )
    sent = message_id(message, route=Route("", "celery"), ticket="t", delay=1.0)
    assert (sent["expiration"], sent["correlation_id"]) == (90.0, "x")
    assert sent["compression"] == "application/x-gzip"  # the body is not, by now
    assert set(sent["headers"]) == {"id", "eta", "semaphore_ticket"}


def test_a_lease_counts_from_before_the_store_was_asked(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = limited(app)
    process, since = limiter_of(app).process, list[float]()
    acquire = process.store.acquire

    def slow(*args: Any) -> Any:
        time.sleep(0.3)
        return acquire(*args)

    monkeypatch.setattr(process.store, "acquire", slow, raising=False)
    monkeypatch.setattr(process.keeper, "add", lambda _, confirmed, __: since.append(confirmed))
    before = time.monotonic()
    delivered(task)
    assert since[0] < before + 0.2


def delivered(task: Any, **headers: Any) -> None:
    """Let a delivery come to its gate, in this process."""
    limiter_of(task.app).serve(None)
    request = {HOLDER: "x:1", "id": "x", "called_directly": False, "is_eager": False, **headers}
    task.push_request(**request)
    try:
        task.before_start("x", (), {})
    finally:
        task.pop_request()


def test_a_process_learns_the_epoch_from_its_delivery(app: Celery) -> None:
    """A new process asks a store that forgot: it must not admit itself before the living are back."""
    task = limited(app)
    sent = request_dict(task, epoch=7)
    limiter_of(app).process.store.epoch = None
    with pytest.raises(Refused, match="recovering"):
        delivered(task, **{EPOCH: sent.get(EPOCH)})


def test_each_delivery_is_a_holder_of_its_own(app: Celery) -> None:
    """A retry may come to its gate before the attempt that sent it has given its permit back."""
    task = limited(app)
    first, second = (request_dict(task, epoch=7) for _ in range(2))
    assert first["id"] == second["id"]
    assert first[HOLDER] != second[HOLDER]


def request_dict(task: Any, *, epoch: int) -> dict[str, Any]:
    """What a request of this task brings to the process that runs it."""
    limiter_of(task.app).process.store.epoch = epoch
    request = symbol_by_name(task.Request)(message_of(task), app=task.app, task=task)
    found: dict[str, Any] = request._request_dict
    return found


def message_of(task: Any) -> Any:
    return SimpleNamespace(
        headers={"id": "x", "task": task.name, "lang": "py"},
        properties={"correlation_id": "x"},
        body=b'[[], {}, {"callbacks": null, "errbacks": null, "chain": null, "chord": null}]',
        payload=((), {}, {}),
        content_type="application/json",
        content_encoding="utf-8",
        delivery_info={"exchange": "", "routing_key": "celery"},
        delivery_tag="1",
    )


def test_what_a_lost_connection_delivered_is_not_put_back(app: Celery) -> None:
    """The broker delivers it again; a copy would run twice."""
    task = limited(app)
    request = symbol_by_name(task.Request)(message_of(task), app=app, task=task)
    assert request.may_go_back()
    limiter_of(app).connections += 1
    assert not request.may_go_back()


def test_a_fork_has_a_side_of_its_own(app: Celery) -> None:
    limiter = limiter_of(app)
    process = limiter.process
    process.store.epoch = 7
    pid = os.fork()
    if not pid:  # pragma: no cover - in the child
        own = limiter.process is not process and limiter.process.pid == os.getpid()
        os._exit(0 if own and limiter.process.store.epoch == 7 else 1)
    assert os.waitpid(pid, 0)[1] == 0


def test_a_process_is_gone_once_it_ended() -> None:
    """Whether its pool has waited for it or not."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:  # pragma: no cover - in the child
        os.close(write)
        os.read(read, 1)
        os._exit(0)
    os.close(read)
    assert not is_gone(pid)
    os.close(write)
    wait_until(lambda: is_gone(pid), 10, "it is gone")
    os.waitpid(pid, 0)
    assert is_gone(pid)


def test_the_last_step_waits_for_releases(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tasks whose processes did not live to release them."""
    limited(app)
    limiter = limiter_of(app)
    process = limiter.process
    release = process.store.release

    def slow(*args: Any) -> Any:
        time.sleep(0.3)
        return release(*args)

    monkeypatch.setattr(process.store, "release", slow, raising=False)
    limiter.start()
    process.ledger.asked("x", [ONE])
    assert isinstance(process.store.acquire([ONE], "x"), Permit)
    process.ledger.ended("x")
    consumer = SimpleNamespace(
        app=app,
        on_connection_error_after_connected=None,
        _restore_prefetch_count_after_connection_restart=None,
    )
    SemaphoreConsumerStep(consumer).shutdown(consumer)
    assert process.store.snapshot("one").occupied == 0


def test_the_last_step_waits_for_the_broker_in_bounds(app: Celery) -> None:
    limited(app)
    limiter, waited = limiter_of(app), []
    limiter.mover = cast("Any", SimpleNamespace(flush=waited.append, close=waited.append))
    limiter.close(5.0, flush=0.5)
    assert waited == [0.5, 0.5]


# -- with workers


def test_a_permit_is_kept_while_its_process_runs(site: Site) -> None:
    """The signal was sent, and the process lives on: it has the permit until it ends."""
    site.lease = 60.0
    site.start(concurrency=2)
    slow = site.send("hold", 3.0, "one")
    wait_until(lambda: site.inside("one") == 1, 20, "it runs")
    slow.revoke(terminate=True, signal="SIGCONT")
    other = site.send("hold", 0.0, "one")
    other.get(timeout=30)
    stats = site.counter.stats("one")
    assert (stats["completed"], stats["max_inside"]) == (2, 1)


def test_renews_during_a_warm_shutdown(site: Site) -> None:
    """It finishes a task that is longer than two leases; nobody else gets its permit meanwhile."""
    leaving = site.start(name="leaving", concurrency=1)
    site.start(name="other", concurrency=1, queues=["other"])
    site.send("hold", 8.0, "one")
    wait_until(lambda: site.inside("one") == 1, 20, "it runs")
    leaving.warm()
    other = site.send("hold", 0.0, "one", queue="other")
    other.get(timeout=40)
    stats = site.counter.stats("one")
    assert (stats["completed"], stats["max_inside"]) == (2, 1)


def test_what_always_dies_before_its_permit_fails(site: Site, tmp_path: Path) -> None:
    """Delivered again once: a key function that kills its process must not do so for ever."""
    struck = tmp_path / "struck"
    env = {
        "FAULT": "child: before acquire",
        "FAULT_FILE": str(struck),
        "FAULT_PARENT": str(os.getpid()),
    }
    site.start(concurrency=1, env=env)
    result = site.send("early", "success", "one")
    times = 0

    def failed() -> bool:
        nonlocal times
        if struck.exists():
            struck.unlink()
            times += 1
        return bool(result.ready())

    wait_until(failed, 40, "it failed")
    assert (result.state, times) == ("FAILURE", 2)


def with_slow_publishing(site: Site, valkey: ValkeyServer, proxy: Proxy) -> CeleryWorker:
    """A worker that publishes through the proxy, and all else as always; the permit is taken."""
    url = site.broker.replace(str(valkey.port), str(proxy.port))
    worker = site.start(concurrency=4, env={"PUBLISH_BY": url}, conf={"semaphore_hold": False})
    site.occupy()
    return worker


def test_not_acknowledged_before_its_successor_is_published(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    proxy = start_proxy(valkey.port)
    worker = with_slow_publishing(site, valkey, proxy)
    proxy.cut()
    result = site.send("hold", 0.0, "w")
    wait_until(lambda: "waiting tasks stay here" in worker.log(), 20, "it cannot be published")
    time.sleep(1.5)  # an acknowledgement would have been sent by now
    with valkey.client() as client:
        assert client.hlen("unacked") == 1
    proxy.restore()
    site.let_go()
    result.get(timeout=30)
    with valkey.client() as client:
        wait_until(lambda: client.hlen("unacked") == 0, 10, "all are acknowledged")


def test_a_shutdown_waits_for_what_is_being_published(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    """Or the old message goes back as well as the new one, and one of them is a copy."""
    proxy = start_proxy(valkey.port)
    worker = with_slow_publishing(site, valkey, proxy)
    proxy.delay(0.3)
    results = [site.send("hold", 0.0, "w") for _ in range(6)]
    wait_until(lambda: worker.log().count(" waits ") >= 6, 20, "they wait")
    worker.warm()
    site.let_go()
    worker.wait(40)
    assert sorted(each["id"] for each in queued(valkey)) == sorted(result.id for result in results)
    site.start(concurrency=2)
    wait_until(lambda: all(r.ready() for r in results), 60, "all are done")
    tasks = site.counter.stats("w")["tasks"]
    assert [tasks[result.id]["entries"] for result in results] == [1] * 6


def test_a_shutdown_waits_for_its_releases(
    site: Site, valkey: ValkeyServer, start_proxy: Callable[[int], Proxy]
) -> None:
    site.lease = 60.0
    proxy = start_proxy(valkey.port)
    site.store_url = site.store_url.replace(str(valkey.port), str(proxy.port))
    worker = site.start(concurrency=1)
    site.send("hold", 1.0, "one")
    wait_until(lambda: site.inside("one") == 1, 20, "it runs")
    proxy.delay(0.7)
    worker.warm()
    worker.wait(30)
    proxy.restore()
    site.wait_all_back(ONE, 5)


def test_a_revoked_greenlet_gives_its_permit_back(site: Site) -> None:
    """No process ends with it that could be waited for."""
    site.lease = 60.0
    site.start(pool="gevent", concurrency=4)
    result = site.send("hold", 30.0, "one")
    wait_until(lambda: site.inside("one") == 1, 20, "it runs")
    result.revoke(terminate=True)
    wait_until(lambda: site.inside("one") == 0, 20, "it ended")
    site.wait_all_back(ONE, 10)
