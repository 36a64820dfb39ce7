"""The counting server as a process of the tests."""

import sys
from typing import Self

from tests.support.process import Process, free_port, listening

from .client import ADDRESS, Counter


class CounterServer:
    def __init__(self) -> None:
        self.port = free_port()
        command = [sys.executable, "-m", "tests.support.counter", "--port", str(self.port)]
        self.process = Process("counter", command)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to find it."""
        return {ADDRESS: self.address}

    def client(self) -> Counter:
        return Counter(self.address)

    def start(self) -> Self:
        self.process.start()
        self.process.wait_until(lambda: listening(self.port), 10, "listening")
        return self

    def stop(self) -> None:
        self.process.discard()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
