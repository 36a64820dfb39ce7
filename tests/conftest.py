"""Servers, proxies and workers for all tests.

A server that is missing skips the tests that need it here, and fails them in CI.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Protocol
from uuid import uuid4

import pytest

from tests.support.counter import Counter, CounterServer
from tests.support.proxy import Proxy
from tests.support.servers import RabbitServer, RedisServer, ValkeyServer, in_ci
from tests.support.worker import CeleryWorker


def need(server: type[RedisServer | RabbitServer]) -> None:
    reason = server.why_missing()
    if reason and in_ci():
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def valkey_server() -> Iterator[ValkeyServer]:
    need(ValkeyServer)
    with ValkeyServer() as server:
        yield server


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    need(RedisServer)
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def rabbitmq_server() -> Iterator[RabbitServer]:
    need(RabbitServer)
    with RabbitServer() as server:
        yield server


@pytest.fixture(scope="session")
def counter_server() -> Iterator[CounterServer]:
    with CounterServer() as server:
        yield server


@pytest.fixture
def valkey(valkey_server: ValkeyServer) -> ValkeyServer:
    """The session's Valkey, empty. Not to be killed: `start_valkey` is for that."""
    valkey_server.flush()
    return valkey_server


@pytest.fixture
def redis(redis_server: RedisServer) -> RedisServer:
    """The session's Redis, empty. Not to be killed: `start_redis` is for that."""
    redis_server.flush()
    return redis_server


@pytest.fixture
def rabbitmq_url(rabbitmq_server: RabbitServer) -> str:
    """The session's RabbitMQ, an empty virtual host of it."""
    return rabbitmq_server.add_virtual_host(uuid4().hex)


@pytest.fixture
def counter(counter_server: CounterServer) -> Iterator[Counter]:
    """The counting server, at zero."""
    counter = counter_server.client()
    counter.reset()
    yield counter
    counter.close()


class StartServer(Protocol):
    def __call__(self, **options: str) -> RedisServer: ...


class StartWorker(Protocol):
    def __call__(self, app: str, **options: Any) -> CeleryWorker: ...


@pytest.fixture
def start_valkey() -> Iterator[StartServer]:
    """Starts a Valkey of the test's own; options as in valkey.conf, with underscores."""
    need(ValkeyServer)
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(ValkeyServer(**options))


@pytest.fixture
def start_redis() -> Iterator[StartServer]:
    need(RedisServer)
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(RedisServer(**options))


@pytest.fixture
def start_proxy() -> Iterator[Callable[[int], Proxy]]:
    """Starts a proxy in front of a port."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(Proxy(port))


@pytest.fixture
def start_worker(counter_server: CounterServer) -> Iterator[StartWorker]:
    """Starts a Celery worker that knows the counting server; a failed test shows its log."""
    workers: list[CeleryWorker] = []

    def start(app: str, **options: Any) -> CeleryWorker:
        options["env"] = counter_server.env | options.get("env", {})
        worker = CeleryWorker(app, **options)
        workers.append(worker)
        return worker.start()

    yield start
    for worker in workers:
        worker.stop()
        print(worker.log_tail(200))  # noqa: T201 - pytest shows it when the test failed
        worker.discard()
