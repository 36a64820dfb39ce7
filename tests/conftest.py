"""Servers, proxies and workers for all tests.

A server that is missing skips the tests that need it here, and fails them in CI.
"""

import gc
import logging
import os
import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from inspect import isclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import pytest

# Before the first import of a part of it: an assertion that fails there shall show its values.
pytest.register_assert_rewrite("tests.conformance")

from tests.support import process
from tests.support.cluster import ClusterServer
from tests.support.counter import Counter, CounterServer
from tests.support.dynamodb import KEYS, EmulatorServer
from tests.support.mariadb import MariaServer
from tests.support.order import shared_out
from tests.support.postgres import EmbeddedPostgresServer, PostgresServer
from tests.support.proxy import Proxy
from tests.support.quick import is_quick, may_hold_quick
from tests.support.rabbit import Rabbit, RabbitServer
from tests.support.server import Server
from tests.support.servers import OldestRedisServer, RedisServer, ValkeyServer, in_ci
from tests.support.shared import shared
from tests.support.worker import CeleryWorker

RABBIT_AT = "TESTS_RABBIT_AT"  # a RabbitMQ that several runs share
S = TypeVar("S", bound=Server)


def need(server: type[Server | RabbitServer]) -> None:
    reason = server.why_missing()
    if reason and in_ci():
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)


def pytest_configure() -> None:
    # A shell ignores SIGINT for what it runs in the background, and so would each process that a test starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ |= KEYS  # of no account of anybody: a test must not find others
    process.run_directory()  # before xdist starts the other processes of the run


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect ten thousand tests without a search for garbage, and keep them out of all later ones."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    only_quick = config.getoption("markexpr") == "quick"
    return True if only_quick and not may_hold_quick(collection_path) else None


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """Leave out a class whose tests would all be deselected: to make them takes each process of a run half a second."""
    wanted = collector.config.getoption("markexpr")
    if " or " in wanted or "not variants" not in wanted.split(" and ") or not isclass(obj):
        return None
    marks = getattr(obj, "pytestmark", [])
    return [] if any(mark.name == "variants" for mark in marks) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    if "quick" in item.config.getoption("markexpr") and is_quick(item):
        item.add_marker("quick")


@pytest.hookimpl(trylast=True)  # when -m and -k have chosen
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")):
        items[:] = shared_out(items, processes)


@contextmanager
def running(server: type[S]) -> Iterator[S]:
    need(server)
    with server() as started:
        yield started


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """A test that leaves another level of the root logger hides the warnings that later tests read."""
    level = logging.getLogger().level
    yield
    assert logging.getLogger().level == level


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all processes that run tests now."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


def server_fixture(
    kind: type[S],
    prepare: Callable[[S], object] = lambda _: None,
    scope: Literal["session", "package", "module"] = "session",
) -> Any:
    """Return a fixture: one server of this kind for the session, or a part of it."""

    @pytest.fixture(scope=scope)
    def server() -> Iterator[S]:
        with running(kind) as started:
            prepare(started)
            yield started

    return server


valkey_server = server_fixture(ValkeyServer)
redis_server = server_fixture(RedisServer)
oldest_redis_server = server_fixture(OldestRedisServer)
# Its nodes ask each other all the time: in six processes, to the end of the run, that took a twentieth of a processor.
cluster_server = server_fixture(ClusterServer, scope="module")
postgres_server = server_fixture(PostgresServer, PostgresServer.install)
mariadb_server = server_fixture(MariaServer)
emulator_server = server_fixture(EmulatorServer)
embedded_postgres_server = server_fixture(EmbeddedPostgresServer, PostgresServer.install)


@pytest.fixture(scope="session")
def rabbitmq_server(run_directory: Path) -> Iterator[Rabbit]:
    """One for all processes of the run: its start takes as long as ten tests."""
    need(RabbitServer)
    if RABBIT_AT in os.environ:
        yield Rabbit.at(os.environ[RABBIT_AT])
        return
    with shared(run_directory, "rabbitmq", rabbit_address) as address:
        yield Rabbit.at(address)


@contextmanager
def rabbit_address() -> Iterator[str]:
    with RabbitServer() as server:
        yield server.address


@pytest.fixture(scope="session")
def counter_server() -> Iterator[CounterServer]:
    with CounterServer() as server:
        yield server


def emptied(server: str, empty: Callable[[Any], object]) -> Any:
    """Return a fixture: the session's server of this name, without what earlier tests left."""

    @pytest.fixture
    def emptied_server(request: pytest.FixtureRequest) -> Any:
        found = request.getfixturevalue(server)
        empty(found)
        return found

    return emptied_server


def whole_and_empty(cluster: ClusterServer) -> None:
    cluster.heal()
    cluster.flush()


# A test that hurts the Cluster says so: ``cluster.hurt = True``.
# None of the others is to be killed: `start_valkey`, `start_redis` and `start_postgres` are for that.
valkey = emptied("valkey_server", ValkeyServer.flush)
redis = emptied("redis_server", RedisServer.flush)
oldest_redis = emptied("oldest_redis_server", OldestRedisServer.flush)
cluster = emptied("cluster_server", whole_and_empty)
postgres = emptied("postgres_server", PostgresServer.forget)
embedded_postgres = emptied("embedded_postgres_server", PostgresServer.forget)


@pytest.fixture
def rabbitmq_url(rabbitmq_server: Rabbit) -> str:
    """The run's RabbitMQ, an empty virtual host of it."""
    return rabbitmq_server.virtual_host()


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
        worker.kill_group()
        print(worker.log_tail(200))  # noqa: T201 - pytest shows it when the test failed
        worker.discard()
