"""URLs as Celery users write them."""

import sys
from collections.abc import Callable
from typing import Any

import pytest
import redis
from redis.connection import SSLConnection

from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis.url import (
    nodes_from_url,
    pool_from_url,
    redacted,
    sentinels_from_url,
)
from tests.support.servers import RedisServer

from .conftest import claim


def pool(url: str, ssl: Any = None, **options: Any) -> Any:
    return pool_from_url(url, StoreOptions(timeout=2.0, transport_options=options, ssl=ssl))


@pytest.mark.parametrize("scheme", ["redis", "valkey"])
def test_tcp(server: RedisServer, scheme: str) -> None:
    store = store_from_url(
        server.database(3).replace("redis:", f"{scheme}:"), StoreOptions(prefix="p", lease=9)
    )
    assert store.lease == 9
    assert isinstance(store.acquire(claim(), "a"), Permit)
    with server.client(3) as client:
        assert client.exists("{p}:epoch")


@pytest.mark.parametrize(
    "form", ["unix://{}", "redis+socket://{}", "socket://{}", "redis+socket://{}?virtual_host=3"]
)
def test_unix_sockets(server: RedisServer, form: str) -> None:
    store = store_from_url(form.format(server.socket))
    assert isinstance(store.acquire(claim(), "a"), Permit)
    with server.client(3 if "virtual_host" in form else 0) as client:
        assert client.exists("{celery-semaphore}:epoch")


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_tls(scheme: str) -> None:
    found = pool(f"{scheme}://host:1/2?ssl_cert_reqs=none")
    assert found.connection_class is redis.SSLConnection
    assert found.connection_kwargs["ssl_cert_reqs"] == "none"


def test_tls_by_option() -> None:
    found = pool("redis://host/0", ssl={"ssl_ca_certs": "/ca.pem"})
    assert found.connection_class is redis.SSLConnection
    assert found.connection_kwargs["ssl_ca_certs"] == "/ca.pem"
    assert pool("redis://host/0", ssl=True).connection_class is redis.SSLConnection


def test_the_url_cannot_undo_what_calls_rely_on() -> None:
    found = pool("redis://host/0?decode_responses=true&health_check_interval=5")
    assert not found.connection_kwargs["decode_responses"]
    assert not found.connection_kwargs["health_check_interval"]
    assert found.connection_kwargs["socket_timeout"] == 2.0


def test_transport_options() -> None:
    found = pool("redis://host/0", username="u", visibility_timeout=3600)
    assert found.connection_kwargs["username"] == "u"
    assert "visibility_timeout" not in found.connection_kwargs


def test_sentinels() -> None:
    url = "sentinel://:p%40ss@one:1/2;sentinel://two:2"
    transport = {"master_name": "main", "sentinel_kwargs": {"password": "other"}}
    found = sentinels_from_url(url, StoreOptions(transport_options=transport))
    assert found
    assert (found.master, {*found.addresses}) == ("main", {("one", 1), ("two", 2)})
    assert found._pool.connection_kwargs["password"] == "other"
    assert "other" not in repr(found)
    primary = pool(url).connection_kwargs
    assert (primary["db"], primary["password"]) == (2, "p@ss")


def test_other_servers_among_sentinels() -> None:
    with pytest.raises(ConfigurationError, match="begins with sentinel://, and one with b:"):
        pool("sentinel://a:1;b:2", master_name="main")


def test_tls_to_the_primary_and_to_sentinels() -> None:
    transport = {"master_name": "main", "sentinel_kwargs": {"ssl": True, "ssl_ca_certs": "one"}}
    given = StoreOptions(transport_options=transport, ssl={"ssl_ca_certs": "two"})
    found = sentinels_from_url("sentinel://one", given)
    assert found
    primary = pool_from_url("sentinel://one", given)
    assert [each.connection_class for each in (found._pool, primary)] == [SSLConnection] * 2
    assert found._pool.connection_kwargs["ssl_ca_certs"] == "one"
    assert primary.connection_kwargs["ssl_ca_certs"] == "two"


def test_sentinels_need_a_name() -> None:
    with pytest.raises(ConfigurationError, match="master_name"):
        store_from_url("sentinel://one:1")


@pytest.mark.parametrize("scheme", ["redis+cluster", "valkey+cluster", "rediss+cluster"])
@pytest.mark.parametrize(
    "form",
    [
        "u:p%40ss@one:1;two:2;[::1]",
        "u:p%40ss@one:1,two:2,[::1]/0",
        "u:p%40ss@one:1;{0}://u:p%40ss@two:2/0;{0}://[::1]?max_connections=7",
        "u:p%40ss@one:1;two:2;[::1]?db=0",
    ],
)
def test_a_cluster(scheme: str, form: str) -> None:
    url = f"{scheme}://{form.format(scheme)}"
    assert nodes_from_url(url) == [("one", 1), ("two", 2), ("::1", 6379)]
    found = pool(url).connection_kwargs
    assert (found["host"], found["port"], found["password"]) == ("one", 1, "p@ss")
    assert not int(found.get("db", 0))


@pytest.mark.parametrize("scheme", ["rediss+cluster", "valkeys+cluster"])
def test_a_cluster_over_tls(scheme: str) -> None:
    assert pool(f"{scheme}://one;two").connection_class is redis.SSLConnection
    assert pool("redis+cluster://one;two", ssl=True).connection_class is redis.SSLConnection


def test_a_cluster_has_one_password() -> None:
    with pytest.raises(ConfigurationError, match="one user name and password") as caught:
        pool("redis+cluster://:secret@one;redis+cluster://:other@two")
    assert "secret" not in str(caught.value)
    assert "other" not in str(caught.value)


@pytest.mark.parametrize("database", ["/1", "/0?db=2", "/x", "?db=3"])
def test_a_cluster_has_one_database(database: str) -> None:
    with pytest.raises(ConfigurationError, match="database 0 only"):
        pool(f"redis+cluster://one:1;two:2{database}")


def test_memory() -> None:
    store = store_from_url("memory://", StoreOptions(lease=5))
    assert isinstance(store, MemoryStore)
    assert store.lease == 5


@pytest.mark.parametrize("url", ["mysql://x", "", "localhost", "amqp://guest:secret@x"])
def test_an_unknown_scheme(url: str) -> None:
    with pytest.raises(ConfigurationError, match="redis://") as caught:
        store_from_url(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:port/0",
        "redis://:secret@host/0?db=x",
        "redis://:secret@host/abc",
        "redis://:secret@host/-1",
        "redis://:sec/secret@host/0",
        "redis://:secret?sec@host/0",
        "sentinel://:secret@host/abc",
        "redis+cluster://:secret@one:1;two:port",
        "redis+cluster://:sec/secret@one:1;two:2",
        "redis+cluster://:secret@one:1;two:2/7",
    ],
)
def test_a_malformed_url_keeps_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        store_from_url(url, StoreOptions(transport_options={"master_name": "main"}))
    assert "secret" not in repr(caught.value)
    assert "@host" in str(caught.value) or "@one:1" in str(caught.value)
    assert caught.value.__cause__ is None


def test_a_database_that_the_server_does_not_have(start_valkey: Callable[..., RedisServer]) -> None:
    server = start_valkey(requirepass="s3cret", databases="4")
    assert store_from_url(server.database(3)).check() == []
    with pytest.raises(StoreUnavailable, match=r"The store refused the call: .*password"):
        list(store_from_url(server.database(3).replace("s3cret", "wrong")).resources())
    with pytest.raises(ConfigurationError, match=r"semaphore_url redis://.*/4 names") as caught:
        store_from_url(server.database(4)).check()
    assert "s3cret" not in str(caught.value)


def test_of_several_brokers_the_first() -> None:
    found = pool("redis://:p;w@one:1/2;redis://two:2/3").connection_kwargs
    assert (found["host"], found["db"], found["password"]) == ("one", 2, "p;w")


def test_a_missing_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("celery_semaphore.stores.redis")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'celery-semaphore\[redis\]'"):
        store_from_url("redis://host")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://u:p@h:1/0", "redis://u:***@h:1/0"),
        ("redis://:p@ss@h/0", "redis://:***@h/0"),
        ("redis://:p;w@h/0", "redis://:***@h/0"),
        ("sentinel://:p@a;sentinel://b", "sentinel://:***@a;sentinel://b"),
        ("redis+cluster://u:p;w@a:1;b:2/0?x", "redis+cluster://u:***@a:1;b:2/0"),
        ("redis://h/0?password=p", "redis://h/0"),
        ("redis://h:1/0?password=p@ss", "redis://***"),
        ("redis+cluster://a:1;b?password=x@y", "redis+cluster://***"),
    ],
)
def test_redaction(url: str, shown: str) -> None:
    assert redacted(url) == shown
