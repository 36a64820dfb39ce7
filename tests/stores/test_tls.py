"""Over TLS, to a real server with a certificate of a test's own authority."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conftest import need
from tests.support.cluster import ClusterServer, Node
from tests.support.process import free_port, free_ports
from tests.support.servers import RedisServer, in_ci

from .conftest import claim


class TlsClusterServer(ClusterServer):
    """A Redis Cluster with TLS, without which only the tests' own clients come in."""

    node = Node

    def __init__(self, authority: Path) -> None:
        super().__init__(tls_cluster="yes", tls_replication="yes", **options(authority))
        for node, port in zip(self.nodes, free_ports(len(self.nodes)), strict=True):
            node.options["tls_port"] = str(port)

    def place(self) -> str:
        """The address of a node that does not serve the slot."""
        return f"127.0.0.1:{self.another().options['tls_port']}"


def openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, and a server's cert.pem and key.pem that it signed."""
    if not shutil.which("openssl"):
        missing = "no openssl in PATH: apt-get install openssl"
        (pytest.fail if in_ci() else pytest.skip)(missing)
    folder = tmp_path_factory.mktemp("tls")
    new = ["req", "-newkey", "rsa:2048", "-nodes", "-keyout"]
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    ca_key, ca, request = (str(folder / name) for name in ("ca.key", "ca.pem", "request.pem"))
    # Python 3.13 takes no authority that does not say what its key is for.
    signs = ["-subj", "/CN=a test's authority", "-addext", "keyUsage=critical,keyCertSign"]
    openssl(*new, ca_key, "-x509", "-days", "2", *signs, "-out", ca)
    openssl(*new, str(folder / "key.pem"), *subject, "-out", request)
    signing = ["-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-copy_extensions", "copy"]
    openssl("x509", "-req", "-in", request, *signing, "-days", "2", "-out", f"{folder}/cert.pem")
    return folder


@pytest.fixture(scope="module")
def place(authority: Path) -> Iterator[str]:
    """Host and port of a Redis that answers over TLS."""
    need(RedisServer)
    port = free_port()
    with RedisServer(tls_port=str(port), **options(authority)):
        yield f"127.0.0.1:{port}"


@pytest.fixture(scope="module")
def tls_cluster(authority: Path) -> Iterator[TlsClusterServer]:
    need(RedisServer)
    with TlsClusterServer(authority) as server:
        yield server


def options(authority: Path) -> dict[str, str]:
    return {
        "tls_cert_file": str(authority / "cert.pem"),
        "tls_key_file": str(authority / "key.pem"),
        "tls_ca_cert_file": str(authority / "ca.pem"),
        "tls_auth_clients": "no",
    }


@pytest.mark.parametrize("scheme", ["rediss", "valkeys"])
def test_permits_over_tls(scheme: str, place: str, authority: Path) -> None:
    store = store_from_url(f"{scheme}://{place}/1?ssl_ca_certs={authority / 'ca.pem'}")
    assert isinstance(store.acquire(claim(), "a"), Permit)
    store.close()


def test_by_semaphore_use_ssl(place: str, authority: Path) -> None:
    store = store_from_url(
        f"redis://{place}", StoreOptions(ssl={"ssl_ca_certs": str(authority / "ca.pem")})
    )
    assert isinstance(store.acquire(claim(), "b"), Permit)
    store.close()


def test_a_server_that_nobody_vouches_for_is_not_asked(place: str) -> None:
    store = store_from_url(f"rediss://{place}/1")
    with pytest.raises(StoreUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
        store.acquire(claim(), "a")
    store.close()


@pytest.mark.parametrize("scheme", ["rediss+cluster", "valkeys+cluster", "rediss"])
def test_permits_in_a_cluster_over_tls(
    scheme: str, tls_cluster: TlsClusterServer, authority: Path
) -> None:
    tls_cluster.heal()
    tls_cluster.flush()
    url = f"{scheme}://{tls_cluster.place()}/0?ssl_ca_certs={authority / 'ca.pem'}"
    store = store_from_url(url, StoreOptions())
    assert store.check() == []
    assert isinstance(store.acquire(claim(9), scheme), Permit)
    tls_cluster.fail_over()
    assert isinstance(store.acquire(claim(9), scheme), Permit)
    store.close()
