"""Server: answer Prometheus over HTTP, in a thread of one process.

The metrics come from collectors of our own in a registry of our own. So they are right with a prefork pool, too, and
``PROMETHEUS_MULTIPROC_DIR``, which is for metrics that each process counts, changes nothing.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable, Mapping
from socketserver import ThreadingMixIn
from types import MappingProxyType
from typing import TYPE_CHECKING, Any
from weakref import WeakSet
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from ..core.background_thread import BackgroundThread
from ..errors import ConfigurationError
from .paths import METRICS, Paths

try:
    from prometheus_client import CollectorRegistry, generate_latest, make_wsgi_app
except ImportError as missing:
    msg = (
        "metrics for Prometheus need the package prometheus-client, which is missing:"
        ' pip install "celery_semaphore[prometheus]".'
    )
    raise ConfigurationError(msg) from missing

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from prometheus_client.registry import Collector

POLL_S = 0.5  # how long the thread waits for a request before it checks whether it shall end
CLOSE_S = 2.0  # for its end, which takes longer only while the process is starved
REQUEST_S = 5.0  # for each read of one request: a client that sends nothing must not keep a thread


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_S

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its parent's name
        """Log nothing: there is one request every few seconds, for ever."""

    def address_string(self) -> str:
        """Return the address as it is: the parent would ask the name server for each request."""
        return str(self.client_address[0])


class _HttpServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True  # a slow client keeps no process alive
    timeout = POLL_S

    def server_bind(self) -> None:
        """Bind without asking the name server for this host's name, which may take seconds."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = map(str, self.server_address[:2])  # type: ignore[assignment]
        self.setup_environ()


class Server:
    """Listens on one port; one made by ``serve``."""

    def __init__(self, http: _HttpServer) -> None:
        self.port: int = http.server_address[1]
        self._http = http
        self._closed = False
        self._thread = BackgroundThread(
            "celery-semaphore-metrics", http.handle_request, lambda: self._closed
        )
        _listening.add(self)

    def start(self) -> None:
        """Start to answer."""
        self._thread.start()

    def close(self) -> None:
        """Free the port; a request that is being answered may be cut off."""
        self._closed = True
        with contextlib.suppress(
            OSError
        ):  # this wakes the thread on Linux; elsewhere it wakes by itself
            self._http.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(CLOSE_S)
        self._http.server_close()

    def forked(self) -> None:
        """Close the child's copy of the socket, or the port would stay in use for as long as the child lives."""
        self._closed = True
        self._http.socket.close()


_listening: WeakSet[Server] = WeakSet()


def _close_in_child() -> None:
    for server in list(_listening):
        server.forked()
    _listening.clear()


os.register_at_fork(after_in_child=_close_in_child)


def serve(
    collectors: Iterable[Collector],
    address: str,
    port: int,
    routes: Mapping[str, WSGIApplication] = MappingProxyType({}),
) -> Server:
    """Return a server that answers ``/metrics`` with what these collectors yield; port 0 stands for any free port.

    ``routes`` are other applications, each by its path. Raise ``OSError`` if it cannot listen there.
    """
    family, where = _resolved(address, port)
    listener = type("_Listener", (_HttpServer,), {"address_family": family})
    http: _HttpServer = listener(where, _Handler)
    http.set_app(Paths({METRICS: make_wsgi_app(_registry_of(collectors)), **routes}))
    server = Server(http)
    server.start()
    return server


def _resolved(address: str, port: int) -> tuple[int, Any]:
    """Return the family and the address of a socket that listens there."""
    try:
        family, _, _, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except ValueError as error:  # such as a part of a name that is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, str(error)) from error
    return family, where


def cause_of(error: OSError) -> str:
    """Return why a server cannot listen, and what to do."""
    if isinstance(error, socket.gaierror):
        return "this address cannot be found: give an IP address or a name of this host"
    advice = {
        errno.EADDRINUSE: "another process may have this port: give another one",
        errno.EADDRNOTAVAIL: "this is not an address of this host: give one that is",
        errno.EACCES: "this user may not have this port: give one above 1023",
    }.get(error.errno or 0, "give another address or port")
    return f"{error.strerror or error}; {advice}"


def text_of(collectors: Iterable[Collector]) -> bytes:
    """Return the text that a server would answer with now."""
    return generate_latest(_registry_of(collectors))


def _registry_of(collectors: Iterable[Collector]) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return registry
