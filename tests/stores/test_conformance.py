"""The one suite on every store."""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql import PostgresStore, store as postgres_store
from celery_semaphore.stores.postgresql.url import parameters_from_url
from celery_semaphore.stores.redis import RedisStore, from_url, scripts
from tests.conformance import StoreConformance
from tests.conformance.hand_on.granted_by_release import GrantedByRelease
from tests.conformance.limits.operators import Operators
from tests.conformance.limits.worker_limits import WorkerLimits
from tests.conformance.parked.brokers import Brokers
from tests.conformance.parked.consumed_queues import ConsumedQueues
from tests.conformance.parked.outbox import Outbox
from tests.conformance.parts import AcquireSuite, EpochsSuite, RenewSuite, SessionsSuite
from tests.conformance.waiting.timeouts import Timeouts
from tests.conformance.waiting.waiting import Waiting
from tests.support.cluster import ClusterServer
from tests.support.kept_link import KeptLink
from tests.support.postgres import PostgresServer
from tests.support.rights import as_role, as_user
from tests.support.servers import RedisServer

GIVEN_KEYS = str(Path(__file__).with_name("given_keys"))  # a part of a script


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def open_store(self) -> Any:
        clients: list[MemoryStore] = []

        def open_store(**options: Any) -> MemoryStore:
            first = clients[0] if clients else None
            clients.append(MemoryStore(StoreOptions(**options), beside=first))
            return clients[-1]

        return open_store

    def forget(self, store: MemoryStore) -> None:
        store.forget()

    def remember(self, store: MemoryStore) -> Callable[[], None]:
        return store.remember()

    def set_format(self, store: MemoryStore, number: int) -> None:
        store.set_format(number)


class OnServer:
    """A server of the Redis family, by a user with the documented rights."""

    server: RedisServer

    @pytest.fixture
    def open_store(self) -> Any:
        def open_store(**options: Any) -> RedisStore:
            return from_url(self.url(), StoreOptions(timeout=5.0, **options))

        return open_store

    def url(self) -> str:
        return as_user(self.server)

    def forget(self, store: RedisStore) -> None:
        with self.server.client() as client:
            client.flushall()

    def remember(self, store: RedisStore) -> Callable[[], None]:
        def lose_the_rest() -> None:
            with self.server.client() as client:
                client.flushall()
                for name, (left, dump) in kept.items():
                    client.restore(name, max(left, 0), dump)
                client.hset("{celery-semaphore}:epoch", "run_id", "of the replica")

        with self.server.client() as client:
            names: Any = client.keys()
            kept: Any = {name: (client.pttl(name), client.dump(name)) for name in names}
        return lose_the_rest

    def set_format(self, store: RedisStore, number: int) -> None:
        with self.server.client() as client:
            client.hset("{celery-semaphore}:epoch", "format", str(number))


class TestValkeyStore(OnServer, StoreConformance):
    @pytest.fixture(autouse=True)
    def on(self, valkey: RedisServer) -> None:
        self.server = valkey


@pytest.mark.variants
class TestRedisStore(OnServer, StoreConformance):
    @pytest.fixture(autouse=True)
    def on(self, redis: RedisServer) -> None:
        self.server = redis


class WithCallers(
    AcquireSuite,
    Waiting,
    Timeouts,
    RenewSuite,
    SessionsSuite,
    GrantedByRelease,
    Outbox,
    Operators,
    EpochsSuite,
):
    """The parts about callers, what they wait for and what they lose."""


class EachScript(WithCallers, Brokers, ConsumedQueues, WorkerLimits):
    """The parts that together call each script."""


class TestOldestRedisStore(OnServer, EachScript):
    """What the commands of a script do is the same on newer servers.

    ``TESTS_REDIS=<path of its redis-server>`` runs all of ``TestRedisStore`` on it.
    """

    @pytest.fixture(autouse=True)
    def on(self, oldest_redis: RedisServer) -> None:
        self.server = oldest_redis


class OnCluster(OnServer):
    """A Redis Cluster, which each store enters at a wrong node; scripts may touch only what they were given."""

    server: ClusterServer  # type: ignore[assignment]

    def url(self) -> str:
        return self.server.url

    @pytest.fixture(autouse=True)
    def on(self, cluster: ClusterServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.server = cluster
        for name, script in vars(scripts).items():
            if isinstance(script, scripts.Script):
                monkeypatch.setattr(scripts, name, scripts.Script(GIVEN_KEYS, *script.parts))
        yield
        with cluster.client() as client:
            names: Any = client.keys()
        assert all(name.startswith(b"{celery-semaphore}:") for name in names)


class TestClusterStore(OnCluster, EachScript):
    """The way of each call through a Cluster, and the keys of each script: its nodes decide as any server does."""


@pytest.mark.variants
class TestWholeClusterStore(OnCluster, StoreConformance):
    """The keys of each row, too."""


class OnPostgres:
    """PostgreSQL, by a role with the documented rights."""

    server: PostgresServer

    @pytest.fixture
    def open_store(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
        stores: list[PostgresStore] = []
        monkeypatch.setattr(postgres_store, "Link", KeptLink)

        def open_store(**options: Any) -> PostgresStore:
            given = StoreOptions(timeout=5.0, **options)
            parameters = parameters_from_url(as_role(self.server), given)
            stores.append(PostgresStore(parameters, given))
            return stores[-1]

        yield open_store
        for store in stores:
            store._link.keep()  # type: ignore[attr-defined]
            store.close()

    def forget(self, store: PostgresStore) -> None:
        self.server.forget()

    def remember(self, store: PostgresStore) -> Callable[[], None]:
        return self.server.remember()

    def set_format(self, store: PostgresStore, number: int) -> None:
        self.server.set_format(number)


@pytest.mark.variants
class TestPostgresStore(OnPostgres, StoreConformance):
    @pytest.fixture(autouse=True)
    def on(self, postgres: PostgresServer) -> None:
        self.server = postgres


class TestEmbeddedPostgresStore(OnPostgres, StoreConformance):
    @pytest.fixture(autouse=True)
    def on(self, embedded_postgres: PostgresServer) -> None:
        self.server = embedded_postgres


# After the first permit of a resource there are more rows than anybody has used.
USED = """
CREATE FUNCTION celery_semaphore.used_before() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO celery_semaphore.permit
        (resource, row_no, granted, weight, token, last, since, ends, epoch, restored)
    SELECT NEW.resource, slot, false, 1, 0, 0, 0, 0, 0, false FROM generate_series(1, 7) AS slot
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER used_before AFTER INSERT ON celery_semaphore.permit
FOR EACH ROW WHEN (NEW.row_no = 0) EXECUTE FUNCTION celery_semaphore.used_before();
"""


class TestUsedPostgresStore(OnPostgres, WithCallers):
    """Who finds a free row takes the short way through acquire.sql; where all is new nobody does.

    The parts with callers whom that concerns.
    """

    @pytest.fixture(autouse=True)
    def on(self, embedded_postgres: PostgresServer) -> Iterator[None]:
        self.server = embedded_postgres
        self.server.run(USED)
        yield
        self.server.run("DROP FUNCTION celery_semaphore.used_before CASCADE")


def test_every_memory_store_is_one_of_its_own() -> None:
    assert store_from_url("memory://") is not store_from_url("memory://")


def test_no_test_hides_another() -> None:
    """The suite is made of classes that are inherited together."""
    names = Counter(name for part in StoreConformance.__mro__ for name in vars(part))
    assert [name for name, count in names.items() if name.startswith("test_") and count > 1] == []
