"""A primary with replicas, and sentinels that promote one of them."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Self

import redis

from .process import Process, free_port, listening, wait_until
from .servers import RedisServer

MASTER = "main"
READY_TIMEOUT_S = 40.0  # a sentinel reads its primary's list of replicas every ten seconds
OPTIONS = {"master_name": MASTER}  # semaphore_transport_options
CONFIGURATION = """\
port {port}
dir {folder}
sentinel monitor {master} 127.0.0.1 {primary} 1
sentinel down-after-milliseconds {master} {down_after_ms}
sentinel failover-timeout {master} {failover_timeout_ms}
"""


class SentinelServer:
    """Servers of Redis, as Debian packages it, and a sentinel or several."""

    def __init__(
        self,
        replicas: int = 1,
        sentinels: int = 1,
        down_after_ms: int = 300,
        failover_timeout_ms: int = 3000,
    ) -> None:
        # The first replica of ``replicas()`` is promoted.
        self.servers = [
            RedisServer(repl_diskless_sync_delay="0", replica_priority=str(100 + n))
            for n in range(1 + replicas)
        ]
        self.folder = Path(tempfile.mkdtemp(prefix="sentinel-"))
        self.ports = [free_port() for _ in range(sentinels)]
        self._times = {
            "down_after_ms": down_after_ms,
            "failover_timeout_ms": failover_timeout_ms,
        }
        self._sentinels = list[Process]()

    @property
    def url(self) -> str:
        return ";".join(f"sentinel://127.0.0.1:{port}" for port in self.ports)

    def start(self) -> Self:
        primary, *replicas = (server.start() for server in self.servers)
        for replica in replicas:
            with replica.client() as client:
                client.replicaof("127.0.0.1", primary.port)
        # A sentinel asks for replicas at its start, and then every ten seconds.
        for replica in replicas:
            wait_until(partial(_follows, replica), READY_TIMEOUT_S, "the replica follows")
        for port in self.ports:
            self._sentinels.append(self._sentinel(port, primary.port))
        self.wait_whole()
        return self

    def _sentinel(self, port: int, primary: int) -> Process:
        folder = self.folder / str(port)
        folder.mkdir()
        file = folder / "sentinel.conf"
        file.write_text(
            CONFIGURATION.format(
                port=port, folder=folder, primary=primary, master=MASTER, **self._times
            )
        )
        binary = RedisServer.binary()
        assert binary, RedisServer.why_missing()
        sentinel = Process(f"sentinel-{port}", [binary, file, "--sentinel"]).start()
        sentinel.wait_until(lambda: listening(port), READY_TIMEOUT_S, "a connection")
        return sentinel

    def stop(self) -> None:
        for sentinel in self._sentinels:
            sentinel.stop()
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
        """Return the server to which the first sentinel sends clients."""
        with self._client() as client:
            _, port = client.sentinel_get_master_addr_by_name(MASTER)
        return next(server for server in self.servers if server.port == port)

    def still_names(self) -> int:
        """Return the port that the first sentinel names in SENTINEL MASTERS, from which redis-py takes it."""
        with self._client() as client:
            return int(client.sentinel_masters()[MASTER]["port"])

    def replicas(self) -> list[RedisServer]:
        primary = self.primary()
        return [server for server in self.servers if server is not primary]

    def promote(self) -> None:
        """Let the replica take the primary's place, as an operator does."""
        with self._client() as client:
            client.execute_command("SENTINEL", "FAILOVER", MASTER)

    def wait_primary_is_not(self, server: RedisServer) -> None:
        wait_until(
            lambda: self.primary() is not server, READY_TIMEOUT_S, "another primary", log=self.log
        )

    def wait_whole(self) -> None:
        """Wait until the sentinels would promote each replica."""
        wait_until(self._is_whole, READY_TIMEOUT_S, "replicas that follow", log=self.log)

    def kill(self) -> None:
        """End the sentinels."""
        for sentinel in self._sentinels:
            sentinel.kill()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let the sentinels hang."""
        for sentinel in self._sentinels:
            sentinel.pause()
        try:
            yield
        finally:
            for sentinel in self._sentinels:
                sentinel.resume()

    def log(self) -> str:
        return "\n".join(sentinel.log_tail(30) for sentinel in self._sentinels)

    def _is_whole(self) -> bool:
        with contextlib.suppress(redis.RedisError):
            replicas = self.replicas()
            return all(map(_follows, replicas)) and all(
                self._knows(port, len(replicas)) for port in self.ports
            )
        return False

    def _knows(self, port: int, replicas: int) -> bool:
        with redis.Redis(port=port) as client:
            others = client.sentinel_master(MASTER)["num-other-sentinels"]
            known = client.sentinel_slaves(MASTER)
            up = [each for each in known if not each["is_disconnected"] and not each["is_sdown"]]
            return len(up) == len(known) == replicas and others == len(self.ports) - 1

    def _client(self) -> redis.Redis:
        return redis.Redis(port=self.ports[0])


def _follows(replica: RedisServer) -> bool:
    with contextlib.suppress(redis.RedisError), replica.client(socket_timeout=1.0) as client:
        return bool(client.info("replication").get("master_link_status") == "up")
    return False
