"""The counting server: JSON lines over TCP, one answer to each.

One thread and `selectors`, not asyncio: the order in which closed connections and new entries
are counted must be ours. A killed process is gone before anybody can learn of its death, so
whatever was closed is counted before whatever came at the same time.
"""

import json
import selectors
import socket
from collections.abc import Callable
from typing import Any

from .ledger import Ledger


class Connection:
    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = sock
        self.buffer = b""
        self.closed = False

    def receive(self) -> None:
        try:
            while not self.closed:
                chunk = self.sock.recv(65536)
                self.buffer += chunk
                self.closed = not chunk
        except BlockingIOError:
            pass
        except OSError:
            self.closed = True

    def lines(self) -> list[bytes]:
        *lines, self.buffer = self.buffer.split(b"\n")
        return lines

    def send(self, answer: Any) -> None:
        line = json.dumps(answer).encode() + b"\n"
        try:
            sent = self.sock.send(line)
            if sent < len(line):
                self.sock.setblocking(True)  # a long answer, to a test that reads it
                self.sock.sendall(line[sent:])
                self.sock.setblocking(False)
        except OSError:
            self.closed = True


class Server:
    def __init__(self, listener: socket.socket) -> None:
        self.ledger = Ledger()
        self.listener = listener
        self.selector = selectors.DefaultSelector()
        self.selector.register(listener, selectors.EVENT_READ)
        self.commands: dict[str, Callable[..., Any]] = {
            "began": lambda: {name: len(r.tasks) for name, r in self.ledger.resources.items()},
            "leave": self.ledger.leave,
            "let go": self._let_go,
            "log": lambda resource: list(self.ledger.resources[resource].log),
            "may go": lambda resource: resource in self.ledger.let_go,
            "pardon": self.ledger.pardon,
            "reset": self.ledger.reset,
            "stats": self._stats,
        }

    def _let_go(self, resource: str) -> None:
        self.ledger.let_go.add(resource)

    def _stats(self, resource: str | None) -> Any:
        if resource is not None:
            return self.ledger.resources[resource].stats()
        return {name: found.stats() for name, found in self.ledger.resources.items()}

    def run(self) -> None:
        while True:
            self._turn([key.data for key, _ in self.selector.select()])

    def _turn(self, ready: list[Connection | None]) -> None:
        if None in ready:
            sock, _ = self.listener.accept()
            self.selector.register(sock, selectors.EVENT_READ, Connection(sock))
        connections = [connection for connection in ready if connection]
        for connection in connections:
            connection.receive()
        for connection in sorted(connections, key=lambda connection: not connection.closed):
            for line in connection.lines():
                self._answer(connection, json.loads(line))
            if connection.closed:
                self.ledger.close(connection)
                self.selector.unregister(connection.sock)
                connection.sock.close()

    def _answer(self, connection: Connection, request: list[Any]) -> None:
        command, *arguments = request
        if command == "enter":
            connection.send(self.ledger.enter(connection, *arguments))
        else:
            connection.send(self.commands[command](*arguments))


def serve(port: int) -> None:
    with socket.create_server(("127.0.0.1", port), backlog=512) as listener:
        Server(listener).run()
