"""A server that gives prepared answers, late ones, or none: what an emulator cannot be made to do."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, dict[str, Any]]
UNAVAILABLE: Answer = (503, {"__type": "ServiceUnavailable"})


def error(code: str, status: int = 400, message: str = "it is so") -> Answer:
    name = f"com.amazonaws.dynamodb.v20120810#{code}"
    return status, {"__type": name, "message": message}


@dataclass
class Answering:
    """``answer`` is asked for each request, by its operation."""

    port: int = 0
    answer: Callable[[str], Answer] = lambda _: (200, {})
    asked: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@contextmanager
def answering() -> Iterator[Answering]:
    found = Answering()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            operation = self.headers["x-amz-target"].partition(".")[2]
            found.asked.append(operation)
            status, body = found.answer(operation)
            raw = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("content-type", "application/x-amz-json-1.0")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """Say nothing of a client that did not wait."""

    server = Server(("127.0.0.1", 0), Handler)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
