"""The proxy really does to a connection what it says."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.process import wait_until
from tests.support.proxy import Proxy


class Echo:
    """A server that answers each line with itself, and remembers it."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=[sock], daemon=True).start()

    def _answer(self, sock: socket.socket) -> None:
        with sock:
            while line := sock.recv(1024):
                self.heard.append(line)
                sock.sendall(line)


@pytest.fixture
def echo() -> Iterator[Echo]:
    echo = Echo()
    yield echo
    echo.listener.close()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.port) as proxy:
        yield proxy


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=5)


def ask(sock: socket.socket, line: bytes) -> bytes:
    sock.sendall(line)
    return sock.recv(1024)


def test_it_forwards(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert ask(sock, b"one") == b"one"
        assert ask(sock, b"two") == b"two"
        assert proxy.connections == 1
    wait_until(lambda: proxy.connections == 0, 5, "the end of the connection")
    assert proxy.requests == 2


def test_cut_drops_and_refuses_until_restored(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert ask(sock, b"one") == b"one"
        proxy.cut()
        assert sock.recv(1024) == b""
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.restore()
    with connect(proxy) as sock:
        assert ask(sock, b"two") == b"two"


def test_drop_refuses_nothing(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        assert ask(sock, b"one") == b"one"
        proxy.drop()
        assert sock.recv(1024) == b""
    with connect(proxy) as sock:
        assert ask(sock, b"two") == b"two"


def test_hang_accepts_and_passes_nothing_on(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy) as old:
        assert ask(old, b"one") == b"one"
        proxy.hang()
        with connect(proxy) as new:
            for sock in (old, new):
                sock.settimeout(0.2)
                with pytest.raises(TimeoutError):
                    ask(sock, b"two")
            assert echo.heard == [b"one"]
            proxy.restore()
            for sock in (old, new):
                sock.settimeout(5)
                assert sock.recv(1024) == b"two"


def test_cut_ends_what_hangs(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        proxy.hang()
        sock.sendall(b"one")
        wait_until(lambda: proxy.connections == 1, 5)
        proxy.cut()
        assert sock.recv(1024) == b""
    wait_until(lambda: proxy.connections == 0, 5, "no connections")


def test_delay_holds_each_request(proxy: Proxy) -> None:
    with connect(proxy) as sock:
        proxy.delay(0.3)
        start = time.monotonic()
        assert ask(sock, b"one") == b"one"
        assert time.monotonic() - start >= 0.3


def test_a_dropped_answer_was_carried_out(proxy: Proxy, echo: Echo) -> None:
    with connect(proxy) as sock:
        assert ask(sock, b"one") == b"one"
        proxy.drop_answers(1, matching=b"acquire")
        assert ask(sock, b"ping") == b"ping"
        assert ask(sock, b"acquire") == b""
    assert echo.heard == [b"one", b"ping", b"acquire"]
    assert proxy.answers_dropped == 1
    with connect(proxy) as sock:
        assert ask(sock, b"acquire") == b"acquire"
