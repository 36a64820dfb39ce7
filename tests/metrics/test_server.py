"""The server of metrics: its port, its end, and forked children."""

from __future__ import annotations

import errno
import gzip
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.parse import unquote
from urllib.request import Request, urlopen

import pytest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from celery_semaphore.metrics.server import Server, cause_of, serve
from tests.support.process import free_port

from .scraped import text_from


class One(Collector):
    def collect(self) -> Iterator[Metric]:
        family = GaugeMetricFamily("one", "One sample.", labels=["name"])
        family.add_metric(['"\n\\'], 1.0)
        yield family


@pytest.fixture
def server() -> Iterator[Server]:
    server = serve([One()], "127.0.0.1", 0)
    yield server
    server.close()


def test_answers(server: Server) -> None:
    assert server.port
    assert 'one{name="\\"\\n\\\\"} 1.0' in text_from(server.port)
    asked = Request(f"http://127.0.0.1:{server.port}/metrics", headers={"Accept-Encoding": "gzip"})
    with urlopen(asked, timeout=10) as answer:  # noqa: S310
        assert b"# TYPE one gauge" in gzip.decompress(answer.read())


@pytest.mark.parametrize("path", ["/", ""])
def test_the_root_leads_to_the_metrics(server: Server, path: str) -> None:
    with urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10) as answer:
        assert answer.url.endswith("/metrics")
        assert b"# TYPE one gauge" in answer.read()


@pytest.mark.parametrize("path", ["/metric", "/metrics/", "/favicon.ico", "/%C3%A9"])
def test_a_path_that_does_not_exist(path: str) -> None:
    """It names those that do; the metrics there would hide the mistake until someone changes the path."""
    other = {"/scale": lambda *_: [b""]}
    server = serve([One()], "127.0.0.1", 0, other)
    with pytest.raises(HTTPError) as answer:
        urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=10)
    server.close()
    said = answer.value.read().decode()
    assert answer.value.code == 404
    shown = unquote(path, "latin-1")
    assert said == f"there is no {shown!r} here; ask for /metrics or /scale\n"


def test_a_long_path_is_cut(server: Server) -> None:
    with pytest.raises(HTTPError) as answer:
        urlopen(f"http://127.0.0.1:{server.port}/{'x' * 10_000}", timeout=10)
    assert len(answer.value.read()) < 200


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EADDRINUSE, "give another one"),
        (errno.EADDRNOTAVAIL, "not an address of this host"),
        (errno.EACCES, "above 1023"),
        (errno.EIO, "give another address or port"),
    ],
)
def test_an_error_says_what_to_do(number: int, advice: str) -> None:
    said = cause_of(OSError(number, os.strerror(number)))
    assert said.startswith(f"{os.strerror(number)}; ")
    assert advice in said


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "::1"])
def test_a_port_is_free_once_it_is_closed(address: str) -> None:
    port = free_port()
    for _ in range(2):
        try:
            server = serve([One()], address, port)
        except OSError as error:
            pytest.skip(f"no {address} here: {error}")
        with pytest.raises(OSError, match="in use"):
            serve([One()], address, port)
        server.close()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address, port), timeout=5)


def test_a_client_that_says_nothing_delays_no_other(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=5):
        assert "one" in text_from(server.port)


def test_a_forked_child_neither_serves_nor_keeps_the_port(server: Server) -> None:
    child = os.fork()
    if not child:
        os._exit(server._http.socket.fileno() != -1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "one" in text_from(server.port), "the parent goes on"


def test_no_package_for_it_is_an_error_that_names_the_extra() -> None:
    code = "import sys; sys.modules['prometheus_client'] = None; import celery_semaphore.metrics.server"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ConfigurationError: metrics for Prometheus need" in done.stderr
    assert 'pip install "celery_semaphore[prometheus]"' in done.stderr
