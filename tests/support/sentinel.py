"""A primary with a replica, and a sentinel that promotes the replica."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import redis

from .process import Process, free_port, wait_until
from .servers import RedisServer

MASTER = "main"
READY_TIMEOUT_S = 40.0  # a sentinel reads its primary's list of replicas every ten seconds
OPTIONS = {"master_name": MASTER}  # semaphore_transport_options
CONFIGURATION = """\
port {port}
dir {folder}
sentinel monitor {master} 127.0.0.1 {primary} 1
sentinel down-after-milliseconds {master} 300
sentinel failover-timeout {master} 3000
"""


class SentinelServer:
    """Two servers of Redis, as Debian packages it, and a sentinel."""

    def __init__(self, **options: str) -> None:
        self.servers = [RedisServer(repl_diskless_sync_delay="0", **options) for _ in range(2)]
        self.folder = Path(tempfile.mkdtemp(prefix="sentinel-"))
        self.port = free_port()
        self._sentinel: Process | None = None

    @property
    def url(self) -> str:
        return f"sentinel://127.0.0.1:{self.port}"

    def start(self) -> Self:
        primary, replica = (server.start() for server in self.servers)
        with replica.client() as client:
            client.replicaof("127.0.0.1", primary.port)
        # The sentinel asks for replicas at its start, and then every ten seconds.
        wait_until(lambda: _follows(replica), READY_TIMEOUT_S, "the replica follows")
        file = self.folder / "sentinel.conf"
        file.write_text(
            CONFIGURATION.format(
                port=self.port, folder=self.folder, primary=primary.port, master=MASTER
            )
        )
        binary = RedisServer.binary()
        assert binary, RedisServer.why_missing()
        self._sentinel = Process(f"sentinel-{self.port}", [binary, file, "--sentinel"]).start()
        self.wait_whole()
        return self

    def stop(self) -> None:
        if self._sentinel:
            self._sentinel.stop()
        for server in self.servers:
            server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_: object) -> None:
        self.stop()

    def primary(self) -> RedisServer:
        """Return the server to which redis-py connects."""
        with self._client() as client:
            port = client.sentinel_masters()[MASTER]["port"]
        return next(server for server in self.servers if server.port == port)

    def replica(self) -> RedisServer:
        primary = self.primary()
        return next(server for server in self.servers if server is not primary)

    def promote(self) -> None:
        """Let the replica take the primary's place, as an operator does."""
        with self._client() as client:
            client.execute_command("SENTINEL", "FAILOVER", MASTER)

    def wait_primary_is_not(self, server: RedisServer) -> None:
        wait_until(
            lambda: self.primary() is not server, READY_TIMEOUT_S, "another primary", log=self.log
        )

    def wait_whole(self) -> None:
        """Wait until the sentinel would promote the replica again."""
        wait_until(self._is_whole, READY_TIMEOUT_S, "a replica that follows", log=self.log)

    def kill(self) -> None:
        assert self._sentinel
        self._sentinel.kill()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let the sentinel hang."""
        assert self._sentinel
        self._sentinel.pause()
        try:
            yield
        finally:
            self._sentinel.resume()

    def log(self) -> str:
        return self._sentinel.log_tail(30) if self._sentinel else ""

    def _is_whole(self) -> bool:
        with contextlib.suppress(redis.RedisError), self._client() as client:
            known = client.sentinel_slaves(MASTER)
            return (
                len(known) == 1
                and not known[0]["is_disconnected"]
                and not known[0]["is_sdown"]
                and _follows(self.replica())
            )
        return False

    def _client(self) -> redis.Redis:
        return redis.Redis(port=self.port)


def _follows(replica: RedisServer) -> bool:
    with contextlib.suppress(redis.RedisError), replica.client(socket_timeout=1.0) as client:
        return bool(client.info("replication").get("master_link_status") == "up")
    return False
