"""What servers of the tests' own have in common."""

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar, Self

from .process import Process, free_port


class Server(ABC):
    """A server on a free loopback port, in a directory of its own; `start()` after its end finds both again."""

    name: ClassVar[str]
    command: ClassVar[str] = ""  # its name in PATH
    missing: ClassVar[str]  # how to get it, where it is not there

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.process: Process | None = None

    @classmethod
    def binary(cls) -> Path | None:
        found = shutil.which(cls.command) or shutil.which(cls.command, path="/usr/sbin")
        return Path(found) if found else None

    @classmethod
    def why_missing(cls) -> str | None:
        """Say how to get it, where it is not there."""
        return None if cls.binary() else cls.missing

    @abstractmethod
    def start(self) -> Self:
        """Start it, and wait until it answers."""

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def end(self, number: int) -> None:
        """Send this signal, and wait for the end."""
        assert self.process
        self.process.signal(number)
        self.process.wait()
        self.process.discard()

    def stop(self) -> None:
        """End it at once, and remove what it kept."""
        if self.process:
            self.process.discard()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
