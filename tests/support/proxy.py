"""A TCP proxy between a client and its server, to do what networks do."""

import contextlib
import socket
import threading
import time
from typing import Self

from .process import free_port


class Proxy:
    """Forwards a loopback port to another until told otherwise.

    A chunk that arrives counts as one request; that holds for clients that
    wait for each answer, as ours do.
    """

    def __init__(self, target_port: int) -> None:
        self.target_port = target_port
        self.port = free_port()
        self.requests = 0
        self.answers_dropped = 0
        self._changed = threading.Condition()
        self._hanging = False
        self._hangs_at = b""
        self._held: list[bytes] = []  # requests
        self._delay = 0.0
        self._drops = 0
        self._drop_matching = b""
        self._listener: socket.socket | None = None
        self._links: set[_Link] = set()

    @property
    def connections(self) -> int:
        with self._changed:
            return len(self._links)

    def start(self) -> Self:
        self.restore()
        return self

    def cut(self) -> None:
        """Drop all connections, and refuse new ones."""
        self.refuse()
        self.drop()

    def drop(self) -> None:
        """Drop all connections; new ones are accepted at any moment."""
        with self._changed:
            links = list(self._links)
        for link in links:
            link.close()

    def refuse(self) -> None:
        """Refuse new connections; those that there are stay."""
        with self._changed:
            listener, self._listener = self._listener, None
        if listener:
            # Closing alone would leave accept() in the other thread waiting, and accepting.
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()

    def hang(self, at: bytes = b"") -> None:
        """Accept, but pass nothing on, in either direction; from the request on that contains these bytes, if any."""
        with self._changed:
            self._hangs_at, self._hanging = at, not at

    def holds(self, matching: bytes) -> bool:
        """Whether a request that contains these bytes waits because it hangs."""
        with self._changed:
            return any(matching in request for request in self._held)

    def delay(self, seconds: float) -> None:
        """Hold each request for a while."""
        with self._changed:
            self._delay = seconds

    def drop_answers(self, requests: int = 1, *, matching: bytes = b"") -> None:
        """Pass the next requests on, but cut the connection when their answer comes.

        So each was carried out, and nobody was told. `matching` names bytes that a request
        must contain to be counted.
        """
        with self._changed:
            self._drops = requests
            self._drop_matching = matching

    def restore(self) -> None:
        """Be a good network again; what was held while hanging goes on."""
        with self._changed:
            self._hanging = False
            self._hangs_at = b""
            self._held.clear()
            self._delay = 0.0
            self._drops = 0
            if not self._listener:
                self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
                threading.Thread(target=self._accept, args=[self._listener], daemon=True).start()
            self._changed.notify_all()

    def stop(self) -> None:
        self.cut()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # cut
            try:
                server = socket.create_connection(("127.0.0.1", self.target_port), timeout=5)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            link = _Link(self, client, server)
            with self._changed:
                refused = self._listener is not listener
                if not refused:
                    self._links.add(link)
            if refused:
                link.close()
            else:
                link.start()

    def _may_pass(self, link: "_Link", request: bytes = b"") -> bool:
        with self._changed:
            if self._hangs_at and self._hangs_at in request:
                self._hangs_at, self._hanging = b"", True
            if self._hanging:
                self._held.append(request)
            self._changed.wait_for(lambda: not self._hanging or link.closed)
            return not link.closed

    def _seen(self, request: bytes) -> bool:
        """Count a request; say whether its answer shall be lost."""
        with self._changed:
            self.requests += 1
            if self._drops and self._drop_matching in request:
                self._drops -= 1
                return True
            return False

    def _ended(self, link: "_Link") -> None:
        with self._changed:
            self._links.discard(link)
            self._changed.notify_all()


class _Link:
    """One connection, and its twin to the server."""

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.server = server
        self.closed = False
        self.lossy = False

    def start(self) -> None:
        for pump in (self._requests, self._answers):
            threading.Thread(target=self._run, args=[pump], daemon=True).start()

    def _run(self, pump: "threading.Thread | object") -> None:
        with contextlib.suppress(OSError):
            pump()  # type: ignore[operator]
        self.close()

    def _requests(self) -> None:
        while chunk := self.client.recv(65536):
            if self.proxy._delay:
                time.sleep(self.proxy._delay)
            if not self.proxy._may_pass(self, chunk):
                return
            if self.proxy._seen(chunk):
                self.lossy = True
            self.server.sendall(chunk)

    def _answers(self) -> None:
        while chunk := self.server.recv(65536):
            if self.lossy:
                with self.proxy._changed:
                    self.proxy.answers_dropped += 1
                return
            if not self.proxy._may_pass(self):
                return
            self.client.sendall(chunk)

    def close(self) -> None:
        self.closed = True
        for end in (self.client, self.server):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in recv()
            end.close()
        self.proxy._ended(self)
