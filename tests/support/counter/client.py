"""What task bodies and tests say to the counting server."""

import contextlib
import json
import os
import socket
import threading
import time
import uuid
import weakref
from collections.abc import Iterator
from typing import Any, Self

ADDRESS = "COUNTER_ADDR"


class Counter:
    """One connection for each process, opened at first use; safe in threads and after a fork."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._buffer = b""
        _counters.add(self)

    @classmethod
    def from_env(cls) -> Self:
        return cls(os.environ[ADDRESS])

    @contextlib.contextmanager
    def inside(self, resource: str, task: str, pid: int | None = None) -> Iterator[int]:
        """Be counted; yields how many are inside. The server knows before the body goes on.

        The log shows ``pid``, by default that of this process.
        """
        name = uuid.uuid4().hex
        now = self._ask("enter", resource, name, task, os.getpid() if pid is None else pid)
        how = "failed"
        try:
            yield now
            how = "completed"
        finally:
            self._ask("leave", name, how)

    def remain(self, resource: str, seconds: float | None) -> None:
        """Stay inside for so long; None: until the test lets all go who are there."""
        if seconds is not None:
            time.sleep(seconds)
            return
        while not self._ask("may go", resource):
            time.sleep(0.02)

    def let_go(self, resource: str) -> None:
        """For good: who comes later does not remain either."""
        self._ask("let go", resource)

    def stats(self, resource: str) -> dict[str, Any]:
        """inside, max_inside, entries, completed, failed, closed, pardoned; tasks: the same by id."""
        found: dict[str, Any] = self._ask("stats", resource)
        return found

    def all_stats(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self._ask("stats", None)
        return found

    def began(self) -> dict[str, int]:
        """How many tasks entered each resource so far."""
        found: dict[str, int] = self._ask("began")
        return found

    def log(self, resource: str) -> list[tuple[float, str, str, str, int, int]]:
        """(monotonic time, event, task, run, pid, inside after it), oldest first."""
        return [tuple(entry) for entry in self._ask("log", resource)]

    def pardon(self, pid: int) -> int:
        """Count the runs of a paused process no more, because its lease is over."""
        found: int = self._ask("pardon", pid)
        return found

    def reset(self) -> None:
        self._ask("reset")

    def close(self) -> None:
        sock, self._sock = self._sock, None
        self._buffer = b""
        if sock:
            sock.close()

    def _ask(self, *request: Any) -> Any:
        with self._lock:
            try:
                return self._exchange(json.dumps(request).encode() + b"\n")
            except BaseException:
                # A time limit may strike between question and answer: the next answer would
                # be the wrong one.
                self.close()
                raise

    def _exchange(self, line: bytes) -> Any:
        if not self._sock:
            host, port = self.address.rsplit(":", 1)
            self._sock = socket.create_connection((host, int(port)), timeout=30)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.sendall(line)
        while b"\n" not in self._buffer:
            chunk = self._sock.recv(65536)
            if not chunk:
                raise ConnectionError("the counting server is gone")
            self._buffer += chunk
        answer, self._buffer = self._buffer.split(b"\n", 1)
        return json.loads(answer)

    def _forked(self) -> None:
        # The child's copy of the socket would keep the parent counted after its death.
        self._lock = threading.Lock()
        self.close()


_counters: weakref.WeakSet[Counter] = weakref.WeakSet()


def _after_fork() -> None:
    for counter in list(_counters):
        counter._forked()


os.register_at_fork(after_in_child=_after_fork)
