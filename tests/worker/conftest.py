"""A site: a broker, a result backend, a store, and real workers on them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest
from celery import Celery
from celery.result import AsyncResult
from kombu import pools

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conftest import need, whole_and_empty
from tests.support.cluster import ClusterServer
from tests.support.counter import Counter, CounterServer
from tests.support.postgres import PostgresServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.worker import CeleryWorker

STORE = os.environ.get("TESTS_STORE", "valkey")
ways_to_requeue = pytest.mark.parametrize("keep", [True, False], ids=["kept", "published"])
valkey_only = pytest.mark.skipif(STORE != "valkey", reason="is about one Redis as the store")


@dataclass
class Site:
    """What one module's tests run on."""

    broker: str
    backend: str
    store_url: str
    counter_env: dict[str, str]
    counter: Counter
    lease: float = 3.0
    prefix: str = StoreOptions.prefix
    # Most tests are about messages that stay with the broker; a test of another way names it.
    conf: Mapping[str, Any] = field(default_factory=lambda: {"semaphore_on_saturated": "requeue"})
    workers: list[CeleryWorker] = field(default_factory=list)
    results: list[AsyncResult] = field(default_factory=list)
    _kept: tuple[object, Store] | None = None

    def __post_init__(self) -> None:
        self.client = Celery("client", broker=self.broker, backend=self.backend)
        self.client.conf.broker_transport_options = {"visibility_timeout": 3600}

    def start(self, *, conf: dict[str, Any] | None = None, **options: Any) -> CeleryWorker:
        """A worker on this site."""
        env = self.env(conf) | options.pop("env", {})
        worker = CeleryWorker(options.pop("app", "tests.worker.app"), env=env, **options)
        self.workers.append(worker)
        return worker.start()

    def env(self, conf: dict[str, Any] | None = None) -> dict[str, str]:
        """For the app under test."""
        return {
            "BROKER": self.broker,
            "BACKEND": self.backend,
            "STORE": self.store_url,
            "LEASE": str(self.lease),
            "CONF": json.dumps({**self.conf, "semaphore_prefix": self.prefix, **(conf or {})}),
            **self.counter_env,
        }

    def send(self, name: str, *args: Any, **options: Any) -> AsyncResult:
        result = self.client.send_task(name, args, **options)
        self.results.append(result)
        return result

    def store(self) -> Store:
        """A store of the test's own, to look from outside the workers."""
        return store_from_url(self.store_url, StoreOptions(prefix=self.prefix, lease=self.lease))

    def all_back(self, claim: Claim) -> bool:
        """Whether exactly the limit can be acquired now; gives all of it back."""
        store, probes = self.store(), [f"probe-{uuid4()}" for _ in range((claim.limit or 0) + 1)]
        answers = [store.acquire([claim], probe) for probe in probes]
        for probe in probes:
            store.release(probe, [claim])
        store.close()
        return sum(isinstance(answer, Permit) for answer in answers) == claim.limit

    def wait_all_back(self, claim: Claim, timeout: float) -> None:
        wait_until(lambda: self.all_back(claim), timeout, f"all permits of {claim} are back")

    def occupy(
        self, count: int = 1, task: str = "hold", resource: str = "held", **options: Any
    ) -> list[AsyncResult]:
        """Take so many permits until `let_go()`; returns once all are taken."""
        results = [self.send(task, None, resource, **options) for _ in range(count)]
        wait_until(lambda: self.inside(resource) == count, 20, "the permits are taken")
        return results

    def let_go(self, resource: str = "held") -> None:
        self.counter.let_go(resource)

    def waiting(self, resource: str = "one") -> int:
        """How many wait in the store."""
        try:
            return self._kept_store().snapshot(resource).waiting
        except StoreUnavailable:  # it was away since the last look
            self._close_kept()
            return self._kept_store().snapshot(resource).waiting

    def _kept_store(self) -> Store:
        """One for all looks of a wait: a new one takes ten times as long as a look."""
        wanted = self.store_url, self.prefix, self.lease
        if self._kept is None or self._kept[0] != wanted:
            self._close_kept()
            self._kept = wanted, self.store()
        return self._kept[1]

    def _close_kept(self) -> None:
        if self._kept is not None:
            self._kept[1].close()
            self._kept = None

    def listens(self) -> None:
        """Return once a worker answers: Redis keeps no command, and nothing of a fanout, for who subscribes later."""
        wait_until(lambda: self.client.control.ping(timeout=1), 20, "a worker answers")

    def inside(self, resource: str) -> int:
        return int(self.counter.stats(resource)["inside"])

    def stop(self) -> None:
        self._close_kept()
        for worker in self.workers:
            worker.kill_group()
            print(worker.log_tail(200))  # noqa: T201 - pytest shows it when a test failed
            worker.discard()
        for result in self.results:
            # Or when it is forgotten it would unsubscribe, at a server that is gone.
            result.backend = None


def queued(valkey: ValkeyServer) -> list[Any]:
    """The headers of all that the broker has, delivered or not."""
    with valkey.client() as broker:
        raw: Any = [*broker.lrange("celery", 0, -1), *broker.hvals("unacked")]
    found = [json.loads(each) for each in raw]
    return [(each[0] if isinstance(each, list) else each)["headers"] for each in found]


def site_on(valkey: ValkeyServer, counters: CounterServer, **options: Any) -> Iterator[Site]:
    counter = counters.client()
    base = valkey.url.removesuffix("/0")
    urls = {"broker": f"{base}/0", "backend": f"{base}/2", "store_url": f"{base}/1"}
    site = Site(**(urls | options), counter_env=dict(counters.env), counter=counter)
    try:
        yield site
    finally:
        site.stop()
        pools.reset()  # a pooled connection believes that it declared what the broker has forgotten
        counter.close()


@pytest.fixture(scope="module")
def module_site(counter_server: CounterServer, request: pytest.FixtureRequest) -> Iterator[Site]:
    """One site for a whole module; its lease is so long that it cannot hide a permit that leaked."""
    need(ValkeyServer)
    with ValkeyServer() as valkey:
        options: dict[str, Any] = elsewhere(request)
        if STORE == "cluster":
            # A test's own site empties the Cluster. By the same prefix this module's worker would begin a grace there.
            options["prefix"] = "module"
        yield from site_on(valkey, counter_server, lease=60.0, **options)


def elsewhere(request: pytest.FixtureRequest) -> dict[str, str]:
    """Where permits are kept if not in Valkey: `TESTS_STORE` names ``postgres``, or ``cluster`` for a Redis Cluster."""
    if STORE == "valkey":
        return {}
    server: PostgresServer | ClusterServer = request.getfixturevalue(f"{STORE}_server")
    if isinstance(server, ClusterServer):
        whole_and_empty(server)
    else:
        server.forget()
    return {"store_url": server.url}


@pytest.fixture
def site(
    valkey: ValkeyServer,
    counter_server: CounterServer,
    counter: Counter,
    request: pytest.FixtureRequest,
) -> Iterator[Site]:
    """A site of one test, with a lease of three seconds."""
    yield from site_on(valkey, counter_server, **elsewhere(request))


@pytest.fixture
def rabbit_site(
    rabbitmq_url: str,
    valkey: ValkeyServer,
    counter_server: CounterServer,
    counter: Counter,
    request: pytest.FixtureRequest,
) -> Iterator[Site]:
    """A site with RabbitMQ as its broker."""
    yield from site_on(valkey, counter_server, broker=rabbitmq_url, **elsewhere(request))


@pytest.fixture
def app() -> Celery:
    """An app without a server, for what a test does in its own process."""
    app = Celery("here", broker="memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    return app
