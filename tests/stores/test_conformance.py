"""The one suite on every store."""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.documents.state import LONGEST_LINE
from celery_semaphore.stores.dynamodb import DynamoStore
from celery_semaphore.stores.dynamodb.items import Item
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql import PostgresStore, store as postgres_store
from celery_semaphore.stores.postgresql.url import parameters_from_url
from celery_semaphore.stores.redis import RedisStore, from_url, scripts
from celery_semaphore.stores.redis.backoff import Backoff
from celery_semaphore.stores.sql.dialects import Dialect
from celery_semaphore.stores.sql.documents import INSERT_NEW
from celery_semaphore.stores.sql.mysql import Mysql
from celery_semaphore.stores.sql.sqlite import Sqlite
from celery_semaphore.stores.sql.store import SqlStore
from tests.conformance import StoreConformance
from tests.conformance.each_branch import EACH_BRANCH
from tests.conformance.each_command import EACH_COMMAND
from tests.conformance.each_document import EACH_DOCUMENT
from tests.conformance.hand_on.granted_by_release import GrantedByRelease
from tests.conformance.limits.operators import Operators
from tests.conformance.parked.outbox import Outbox
from tests.conformance.parts import (
    AcquireSuite,
    EpochsSuite,
    RenewSuite,
    SessionsSuite,
)
from tests.conformance.waiting.timeouts import Timeouts
from tests.conformance.waiting.waiting import Waiting
from tests.support.cluster import ClusterServer
from tests.support.dynamodb import EmulatorServer
from tests.support.kept_link import KeptLink
from tests.support.mariadb import MariaServer
from tests.support.other_run import change_run
from tests.support.postgres import PostgresServer
from tests.support.rights import as_role, as_user
from tests.support.servers import RedisServer
from tests.support.sqlite import new_file

from .strict_scripts import strict_scripts


def only(names: Collection[str]) -> Callable[[type[StoreConformance]], type[StoreConformance]]:
    """Hide all tests but these."""

    def hide(part: type[StoreConformance]) -> type[StoreConformance]:
        tests = {name for name in dir(part) if name.startswith("test_")}
        assert tests >= {*names}, f"there are no such tests: {sorted({*names} - tests)}"
        for name in tests - {*names}:
            setattr(part, name, None)
        return part

    return hide


@only(EACH_COMMAND)
class EachCommand(StoreConformance):
    """What the commands of the scripts do, and the keys that they are given: see ``each_command.py``."""


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
                change_run(client, "of the replica")

        with self.server.client() as client:
            names: Any = client.keys()
            kept: Any = {name: (client.pttl(name), client.dump(name)) for name in names}
        return lose_the_rest

    def set_format(self, store: RedisStore, number: int) -> None:
        with self.server.client() as client:
            client.hset("{celery-semaphore}:epoch", "format", str(number))


class AlwaysShort:
    """Each call is short first that may be, also where it is expected to be in vain."""

    @pytest.fixture(autouse=True)
    def always_short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Backoff, "is_due", lambda *_: True)


class NeverShort:
    """Each call is long, as those are of several resources, of tickets, and of calls in one batch."""

    @pytest.fixture(autouse=True)
    def never_short(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Backoff, "is_due", lambda *_: False)


class OnValkey(OnServer):
    @pytest.fixture(autouse=True)
    def on(self, valkey: RedisServer) -> None:
        self.server = valkey


class TestValkeyStore(NeverShort, OnValkey, StoreConformance):
    """Each row, by the long scripts."""


@pytest.mark.variants
class TestRedisStore(NeverShort, OnServer, StoreConformance):
    @pytest.fixture(autouse=True)
    def on(self, redis: RedisServer) -> None:
        self.server = redis


class TestShortValkeyStore(AlwaysShort, OnValkey, EachCommand):
    """Each way through a short script; that it leaves what a long one leaves is in ``test_short_calls.py``."""


@pytest.mark.variants
class TestWholeShortValkeyStore(AlwaysShort, OnValkey, StoreConformance):
    """A short script beside all others, too."""


@pytest.mark.variants
class TestShortRedisStore(AlwaysShort, OnServer, StoreConformance):
    @pytest.fixture(autouse=True)
    def on(self, redis: RedisServer) -> None:
        self.server = redis


class OnOldestRedis(OnServer):
    @pytest.fixture(autouse=True)
    def on(self, oldest_redis: RedisServer) -> None:
        self.server = oldest_redis


class TestOldestRedisStore(AlwaysShort, OnOldestRedis, EachCommand):
    """What the commands of a script do is the same on newer servers."""


@pytest.mark.variants
class TestWholeOldestRedisStore(NeverShort, OnOldestRedis, StoreConformance):
    """What a script does with many rows, too."""


class OnCluster(OnServer):
    """A Redis Cluster, which each store enters at a wrong node; scripts may touch only what they were given."""

    server: ClusterServer  # type: ignore[assignment]

    def url(self) -> str:
        return self.server.url

    @pytest.fixture(autouse=True)
    def on(self, cluster: ClusterServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        self.server = cluster
        for name, script in strict_scripts().items():
            monkeypatch.setattr(scripts, name, script)
        yield
        with cluster.client() as client:
            names: Any = client.keys()
        assert all(name.startswith(b"{celery-semaphore}:") for name in names)


class TestClusterStore(AlwaysShort, OnCluster, EachCommand):
    """The way of each call through a Cluster, and the keys of each script: its nodes decide as any server does."""


@pytest.mark.variants
class TestWholeClusterStore(NeverShort, OnCluster, StoreConformance):
    """The keys of each row, too."""


@pytest.mark.variants
class TestWholeShortClusterStore(AlwaysShort, OnCluster, StoreConformance):
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


# Once for all tests: after a change of a table the server plans each statement about it again.
@pytest.fixture(scope="class")
def used(embedded_postgres_server: PostgresServer) -> Iterator[None]:
    embedded_postgres_server.run(USED)
    yield
    embedded_postgres_server.run("DROP FUNCTION celery_semaphore.used_before CASCADE")


class OnUsedPostgres(OnPostgres):
    """Who finds a free row takes the short way through acquire.sql; where all is new nobody does."""

    @pytest.fixture(autouse=True)
    def on(self, used: None, embedded_postgres: PostgresServer) -> None:
        self.server = embedded_postgres


@only(EACH_BRANCH)
class EachBranch(StoreConformance):
    """What each function does with rows that are free: see ``each_branch.py``."""


class TestUsedPostgresStore(OnUsedPostgres, EachBranch):
    """That a short way leaves what the long one leaves is in ``postgresql/test_short_ways.py``."""


@pytest.mark.variants
class TestWholeUsedPostgresStore(
    OnUsedPostgres,
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


class OnDocuments:
    """A table of documents, by connections of each client's own."""

    longest_line = LONGEST_LINE
    dialect: Dialect

    @pytest.fixture
    def open_store(self) -> Iterator[Any]:
        stores: list[SqlStore] = []

        def open_store(**options: Any) -> SqlStore:
            stores.append(SqlStore(self.dialect, StoreOptions(timeout=5.0, **options)))
            stores[-1].install()
            return stores[-1]

        yield open_store
        for store in stores:
            store.close()

    def forget(self, store: SqlStore) -> None:
        store._sql.rows("DELETE FROM {table}")

    def remember(self, store: SqlStore) -> Callable[[], None]:
        def lose_the_rest() -> None:
            self.forget(store)
            for row in kept:
                store._sql.rows(INSERT_NEW, *row)
            self._change(store, lambda body: body["e"].update(r=True))

        kept = store._sql.rows("SELECT pk, sk, version, due, expires, body FROM {table}")
        return lose_the_rest

    def set_format(self, store: SqlStore, number: int) -> None:
        self._change(store, lambda body: body.update(v=number))

    def _change(self, store: SqlStore, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the store's own document, as nobody does."""
        for (raw,) in store._sql.rows("SELECT body FROM {table} WHERE pk = 'store#'"):
            body = json.loads(raw)
            change(body)
            changed = json.dumps(body).encode()
            store._sql.rows("UPDATE {table} SET body = ? WHERE pk = 'store#'", changed)


class OnSqlite(OnDocuments):
    @pytest.fixture(autouse=True)
    def on(self, tmp_path: Path) -> None:
        self.dialect = Sqlite({"database": str(new_file(tmp_path))})


@only(EACH_DOCUMENT)
class EachDocument(StoreConformance):
    """What is kept in documents, and each way through the store: see ``each_document.py``."""


class TestSqliteStore(OnSqlite, EachDocument):
    """What the engine decides is the same in memory."""


@pytest.mark.variants
class TestWholeSqliteStore(OnSqlite, StoreConformance):
    """Each row, too."""


class OnMaria(OnDocuments):
    @pytest.fixture(autouse=True)
    def on(self, mariadb_server: MariaServer) -> None:
        self.dialect = Mysql(pymysql, mariadb_server.new_database())


@pytest.mark.variants
class TestMariaStore(OnMaria, EachDocument):
    """The statements of another dialect."""


@pytest.mark.variants
class TestWholeMariaStore(OnMaria, StoreConformance):
    """Each row, too."""


class OnDynamo:
    """A table of an emulator: requests to a server in another process, and no transaction around a call."""

    longest_line = LONGEST_LINE

    @pytest.fixture
    def open_store(self, emulator_server: EmulatorServer) -> Iterator[Any]:
        stores: list[DynamoStore] = []
        table = emulator_server.new_table()

        def open_store(**options: Any) -> DynamoStore:
            stores.append(emulator_server.store(table, timeout=60.0, **options))
            return stores[-1]

        yield open_store
        for store in stores:
            store.close()

    def forget(self, store: DynamoStore) -> None:
        link = store._link
        for item in self._items(store):
            link.call("delete_item", Key={name: item[name] for name in ("pk", "sk")})

    def _items(self, store: DynamoStore) -> list[Item]:
        found: list[Item] = store._link.call("scan", ConsistentRead=True)["Items"]
        return found

    def remember(self, store: DynamoStore) -> Callable[[], None]:
        def lose_the_rest() -> None:
            self.forget(store)
            for item in kept:
                store._link.call("put_item", Item=item)
            self._change(store, lambda body: body["e"].update(r=True))

        kept = self._items(store)
        return lose_the_rest

    def set_format(self, store: DynamoStore, number: int) -> None:
        self._change(store, lambda body: body.update(v=number))

    def _change(self, store: DynamoStore, change: Callable[[dict[str, Any]], object]) -> None:
        """Change the store's own document, as nobody does."""
        for item in self._items(store):
            if item["pk"]["S"] == "store#":
                body = json.loads(item["body"]["B"])
                change(body)
                changed = {"body": {"B": json.dumps(body).encode()}}
                store._link.call("put_item", Item=item | changed)


@pytest.mark.variants
class TestDynamoStore(OnDynamo, EachDocument):
    """What is kept in documents, as items."""


@pytest.mark.variants
@pytest.mark.timeout(900)  # some of the tests make thousands of calls, each of several requests
class TestWholeDynamoStore(OnDynamo, StoreConformance):
    """Each row, too."""


def test_every_memory_store_is_one_of_its_own() -> None:
    assert store_from_url("memory://") is not store_from_url("memory://")


def test_no_test_hides_another() -> None:
    """The suite is made of classes that are inherited together."""
    names = Counter(name for part in StoreConformance.__mro__ for name in vars(part))
    assert [name for name, count in names.items() if name.startswith("test_") and count > 1] == []
