"""The bootstep: what a worker waits for at its end."""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from kombu.asynchronous import Hub

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.main_process.bootstep import SemaphoreConsumerStep, _call_in_loop
from tests.support.process import wait_until
from tests.support.proxy import Proxy
from tests.support.servers import ValkeyServer
from tests.worker.conftest import Site
from tests.worker.requests import limited

ONE = Claim("one", None, 1)


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
        on_decode_error=None,
        on_unknown_task=None,
        on_invalid_task=None,
        _restore_prefetch_count_after_connection_restart=None,
        add_task_queue=None,
        _limit_task=None,
        cancel_task_queue=None,
        hub=None,
    )
    SemaphoreConsumerStep(consumer).shutdown(consumer)
    assert process.store.snapshot("one").occupied == 0


def test_a_call_in_the_loop_takes_no_lock_of_the_loop(app: Celery) -> None:
    """A signal handler may have interrupted the thread that holds it."""
    limiter, hub, calls = limiter_of(app), Hub(), list[str]()
    consumer = SimpleNamespace(hub=hub, call_soon=hub.call_soon)
    with hub._ready_lock:
        other = Thread(
            target=_call_in_loop,
            args=(consumer, limiter, lambda: calls.append("called")),
            daemon=True,
        )
        other.start()
        other.join(10)
        assert not other.is_alive()
    assert select.select([limiter.waker], [], [], 0.0)[0]
    assert calls == []
    limiter.on_wake()
    limiter.on_wake()
    assert calls == ["called"]
    hub.close()


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
