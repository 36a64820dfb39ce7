"""Over TLS, to real servers with certificates of a test's own authority."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError, SemaphoreError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conftest import need
from tests.support import authority
from tests.support.authority import Authority, Certificate, postgres_query, redis_query
from tests.support.cluster import ClusterServer, Node
from tests.support.postgres import PostgresServer, belongs_to_its_user
from tests.support.process import free_port
from tests.support.rights import as_role
from tests.support.servers import RedisServer, ValkeyServer, in_ci

from .conftest import claim


class Certificates:
    """Those of a server and a client, and of a client that another authority vouches for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        signs, foreign = Authority(folder / "ours"), Authority(folder / "foreign")
        self.ca, self.foreign_ca = signs.ca, foreign.ca
        self.server = signs.sign("server")
        self.client, self.other_name = signs.sign("shop"), signs.sign("other")
        self.foreign = foreign.sign("shop")
        self.absent = Certificate(folder / "absent.pem", folder / "absent.key")
        self.mixed = Certificate(self.client.cert, self.foreign.key)


def server_options(certificates: Certificates) -> dict[str, str]:
    return {
        "tls_cert_file": str(certificates.server.cert),
        "tls_key_file": str(certificates.server.key),
        "tls_ca_cert_file": str(certificates.ca),
    }


class TlsClusterServer(ClusterServer):
    """A Redis Cluster with TLS, without which only the tests' own clients come in."""

    node = Node

    def __init__(self, certificates: Certificates) -> None:
        given = server_options(certificates) | {"tls_auth_clients": "no"}
        super().__init__(tls_cluster="yes", tls_replication="yes", **given)
        for node, port in zip(self.nodes, [free_port() for _ in self.nodes], strict=True):
            node.options["tls_port"] = str(port)

    def place(self) -> str:
        """The address of a node that does not serve the slot."""
        return f"127.0.0.1:{self.another().options['tls_port']}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if missing := authority.why_missing():
        (pytest.fail if in_ci() else pytest.skip)(missing)
    return Certificates(tmp_path_factory.mktemp("tls"))


def redis_over_tls(certificates: Certificates, **options: str) -> Iterator[str]:
    need(RedisServer)
    port = free_port()
    given = server_options(certificates) | {"tls_port": str(port)} | options
    with RedisServer(**given):
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def tls_cluster(certificates: Certificates) -> Iterator[TlsClusterServer]:
    need(RedisServer)
    with TlsClusterServer(certificates) as server:
        yield server


@pytest.fixture(scope="module")
def place(certificates: Certificates) -> Iterator[str]:
    """Host and port of a Redis that answers over TLS."""
    yield from redis_over_tls(certificates, tls_auth_clients="no")


@pytest.fixture(scope="module")
def strict(certificates: Certificates) -> Iterator[str]:
    """Host and port of a Redis that demands a client certificate, as it does by default."""
    yield from redis_over_tls(certificates)


@pytest.fixture(scope="module")
def strict_postgres(certificates: Certificates) -> Iterator[str]:
    """The URL of a role that PostgreSQL knows by its certificate alone."""
    need(PostgresServer)
    server = PostgresServer()
    kept = server.directory / "tls"
    kept.mkdir()
    for path in (certificates.server.cert, certificates.server.key, certificates.ca):
        shutil.copy(path, kept)
        belongs_to_its_user(kept / path.name)
    belongs_to_its_user(kept)
    hba = kept / "hba.conf"
    hba.write_text("hostssl all shop all cert\nhost all postgres all trust\n")
    server.options |= {"ssl": "on", "hba_file": str(hba)}
    server.options |= {"ssl_cert_file": str(kept / "server.pem")}
    server.options |= {
        "ssl_key_file": str(kept / "server.key"),
        "ssl_ca_file": str(kept / "ca.pem"),
    }
    with server:
        server.install()
        yield as_role(server)


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_permits_over_tls(scheme: str, place: str, certificates: Certificates) -> None:
    store = store_from_url(f"{scheme}://{place}/1?ssl_ca_certs={certificates.ca}")
    assert isinstance(store.acquire(claim(), "a"), Permit)
    store.close()


def test_by_semaphore_use_ssl(place: str, certificates: Certificates) -> None:
    store = store_from_url(
        f"redis://{place}", StoreOptions(ssl={"ssl_ca_certs": str(certificates.ca)})
    )
    assert isinstance(store.acquire(claim(), "b"), Permit)
    store.close()


def test_a_server_that_nobody_vouches_for_is_not_asked(place: str) -> None:
    store = store_from_url(f"rediss://{place}/1")
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        store.acquire(claim(), "a")
    store.close()


def usable(url: str, options: StoreOptions | None = None) -> bool:
    with closing(store_from_url(url, options or StoreOptions())) as store:
        return store.check() == [] and isinstance(store.acquire(claim(9), "a"), Permit)


def refusal(url: str, options: StoreOptions | None = None) -> SemaphoreError:
    with (
        closing(store_from_url(url, options or StoreOptions())) as store,
        pytest.raises(SemaphoreError) as caught,
    ):
        store.check()
    return caught.value


def test_a_client_certificate_for_redis(strict: str, certificates: Certificates) -> None:
    assert usable(f"rediss://{strict}/0?{redis_query(certificates.ca, certificates.client)}")
    by_setting = StoreOptions(
        ssl={
            "ssl_ca_certs": str(certificates.ca),
            "ssl_certfile": str(certificates.client.cert),
            "ssl_keyfile": str(certificates.client.key),
        }
    )
    assert usable(f"redis://{strict}/0", by_setting)


@pytest.mark.parametrize("name", [None, "foreign"])
def test_redis_refuses_the_client(
    strict: str, certificates: Certificates, name: str | None
) -> None:
    client = getattr(certificates, name) if name else None
    error = refusal(f"rediss://{strict}/0?{redis_query(certificates.ca, client)}")
    assert "ssl_certfile and ssl_keyfile" in str(error)


def test_a_server_of_redis_that_nobody_vouches_for(strict: str, certificates: Certificates) -> None:
    query = redis_query(certificates.foreign_ca, certificates.client)
    error = refusal(f"rediss://{strict}/0?{query}")
    assert isinstance(error, ConfigurationError)
    assert "ssl_ca_certs" in str(error)


@pytest.mark.parametrize("name", ["absent", "mixed"])
def test_files_that_redis_py_cannot_use(strict: str, certificates: Certificates, name: str) -> None:
    query = redis_query(certificates.ca, getattr(certificates, name))
    error = refusal(f"rediss://{strict}/0?{query}")
    assert isinstance(error, ConfigurationError)
    assert "ssl_keyfile" in str(error)


def test_no_tls_to_a_port_of_tls(strict: str) -> None:
    assert "rediss://" in str(refusal(f"redis://{strict}/0"))


def test_tls_to_a_port_without_tls(valkey: ValkeyServer) -> None:
    error = refusal(f"rediss://127.0.0.1:{valkey.port}/0", StoreOptions(timeout=0.5))
    assert "begins with redis://" in str(error)
    assert f"(TLS with 127.0.0.1:{valkey.port})" in str(error)


def test_a_client_certificate_for_postgresql(
    strict_postgres: str, certificates: Certificates
) -> None:
    assert usable(f"{strict_postgres}?{postgres_query(certificates.ca, certificates.client)}")


@pytest.mark.parametrize("name", [None, "foreign", "absent", "mixed", "other_name"])
def test_postgresql_refuses_the_client(
    strict_postgres: str, certificates: Certificates, name: str | None
) -> None:
    client = getattr(certificates, name) if name else None
    error = refusal(f"{strict_postgres}?{postgres_query(certificates.ca, client)}")
    assert isinstance(error, ConfigurationError)
    assert "sslcert and sslkey" in str(error)


@pytest.mark.parametrize("name", ["foreign_ca", "absent"])
def test_a_server_of_postgresql_that_nobody_vouches_for(
    strict_postgres: str, certificates: Certificates, name: str
) -> None:
    ca = certificates.absent.cert if name == "absent" else certificates.foreign_ca
    error = refusal(f"{strict_postgres}?{postgres_query(ca, certificates.client)}")
    assert isinstance(error, ConfigurationError)
    assert "sslrootcert" in str(error)


def test_postgresql_without_tls(postgres: PostgresServer, certificates: Certificates) -> None:
    error = refusal(f"{postgres.url}?{postgres_query(certificates.ca)}")
    assert isinstance(error, ConfigurationError)
    assert "sslmode" in str(error)


@pytest.mark.parametrize("scheme", ["rediss+cluster", "valkeys+cluster", "rediss"])
def test_permits_in_a_cluster_over_tls(
    scheme: str, tls_cluster: TlsClusterServer, certificates: Certificates
) -> None:
    tls_cluster.heal()
    tls_cluster.flush()
    url = f"{scheme}://{tls_cluster.place()}/0?ssl_ca_certs={certificates.ca}"
    store = store_from_url(url, StoreOptions())
    assert store.check() == []
    assert isinstance(store.acquire(claim(9), scheme), Permit)
    tls_cluster.fail_over()
    assert isinstance(store.acquire(claim(9), scheme), Permit)
    store.close()
