"""URLs as users of Celery, SQLAlchemy and libpq write them, and servers that must not be used."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.postgresql.url import parameters_from_url, redacted
from tests.stores.conftest import claim
from tests.support.postgres import PostgresServer
from tests.support.process import free_port, wait_until
from tests.support.proxy import Proxy

from .conftest import OpenAt, StartServer

SECRET = "s3cret"


def parameters(url: str, ssl: Any = None) -> dict[str, Any]:
    return parameters_from_url(url, StoreOptions(timeout=2.0, ssl=ssl))


@pytest.mark.parametrize(
    "scheme",
    ["postgresql", "postgres", "db+postgresql", "db+postgresql+psycopg", "postgresql+psycopg2"],
)
def test_any_spelling(server: PostgresServer, scheme: str) -> None:
    store = store_from_url(server.url.replace("postgresql", scheme), StoreOptions(lease=9))
    assert store.lease == 9
    assert isinstance(store.acquire(claim(), "a"), Permit)
    store.close()


def test_a_socket(server: PostgresServer) -> None:
    url = f"postgresql:///postgres?host={server.directory}&port={server.port}&user=postgres"
    store = store_from_url(url)
    assert isinstance(store.acquire(claim(), "a"), Permit)
    store.close()


def test_what_the_url_says_goes_first() -> None:
    found = parameters(
        "postgresql://h/d?sslmode=verify-full&connect_timeout=9&application_name=mine"
    )
    assert (found["sslmode"], found["connect_timeout"]) == ("verify-full", "9")
    assert found["application_name"] == "mine"
    assert found["target_session_attrs"] == "read-write"
    assert (
        parameters("postgresql://h/d?target_session_attrs=primary")["target_session_attrs"]
        == "primary"
    )


def test_tls_by_option() -> None:
    assert parameters("postgresql://h/d", ssl=True)["sslmode"] == "require"
    assert (
        parameters("postgresql://h/d", ssl={"sslrootcert": "/ca.pem"})["sslrootcert"] == "/ca.pem"
    )
    assert "sslmode" not in parameters("postgresql://h/d")


def only_read(server: PostgresServer) -> None:
    server.run("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
    wait_until(lambda: server.run("SHOW default_transaction_read_only") == [("on",)])


def test_of_several_hosts_one_that_writes(start_server: StartServer, open_at: OpenAt) -> None:
    reads, writes = start_server(), start_server()
    only_read(reads)
    hosts = f"127.0.0.1:{free_port()},127.0.0.1:{reads.port},127.0.0.1:{writes.port}"
    store = open_at(f"postgresql://postgres@{hosts}/postgres")
    assert isinstance(store.acquire(claim(), "a"), Permit)
    assert open_at(writes.url).snapshot("api").occupied == 1


def test_a_server_that_only_reads(start_server: StartServer, open_at: OpenAt) -> None:
    server = start_server()
    store = open_at(server.url)
    store.acquire(claim(), "a")
    only_read(server)

    def refused() -> bool:
        try:
            store.release("a", claim())
        except StoreUnavailable as error:
            return "read-only" in error.reason
        return False

    wait_until(refused)
    with pytest.raises(ConfigurationError, match=r"read-only.*primary"):
        open_at(server.url).check()


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://u:{SECRET}@h:port/d",
        f"postgresql://u:{SECRET}@h/d?nonsense=1&password={SECRET}",
        f"postgresql://u:{SECRET}@h/d?password={SECRET}%",
    ],
)
def test_a_url_that_cannot_be_read(url: str) -> None:
    with pytest.raises(ConfigurationError) as failed:
        store_from_url(url).check()
    assert SECRET not in str(failed.value)
    assert failed.value.__cause__ is None


def test_no_password_is_shown(server: PostgresServer) -> None:
    url = f"postgresql://postgres:{SECRET}@127.0.0.1:{free_port()}/postgres?password={SECRET}"
    assert SECRET not in redacted(url)
    store = store_from_url(url)
    with pytest.raises(StoreUnavailable) as failed:
        store.acquire(claim(), "a")
    assert SECRET not in str(failed.value) + str(failed.value.__cause__)


@pytest.fixture
def strict(start_server: StartServer) -> PostgresServer:
    """A server that wants passwords."""
    server = start_server()
    server.run(f"CREATE ROLE worker LOGIN PASSWORD '{SECRET}'")
    (server.data / "pg_hba.conf").write_text(
        "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
    )
    server.run("SELECT pg_reload_conf()")
    return server


@pytest.mark.parametrize("password", ["", ":wrong"])
def test_a_wrong_password(strict: PostgresServer, open_at: OpenAt, password: str) -> None:
    store = open_at(strict.url.replace("postgres@", f"worker{password}@"))
    with pytest.raises(ConfigurationError, match="password") as failed:
        store.check()
    assert "wrong" not in str(failed.value)


def test_a_database_that_is_not_there(server: PostgresServer, open_at: OpenAt) -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        open_at(server.database("nowhere")).check()


@pytest.mark.parametrize("fsync", ["on", "off"])
def test_a_server_that_may_lose_messages(
    start_server: StartServer, open_at: OpenAt, fsync: str
) -> None:
    store = open_at(start_server(fsync=fsync).url)
    assert store.check() == []
    assert ["fsync" in warning for warning in store.check(parks=True)] == [True] * (fsync == "off")


def test_a_server_that_is_away(start_proxy: Callable[[int], Proxy], open_at: OpenAt) -> None:
    with pytest.raises(StoreUnavailable):
        open_at(f"postgresql://postgres@127.0.0.1:{free_port()}/postgres").check()


def test_without_the_driver() -> None:
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from celery_semaphore.stores import store_from_url\n"
        "store_from_url('postgresql://h/d')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'celery-semaphore[postgresql]'" in done.stderr
