"""A Redis Cluster: three primaries, and a replica of each."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import redis
from redis.crc import key_slot

from .process import free_port, wait_until
from .server import Server
from .servers import RedisServer, ValkeyServer

SLOTS = 16384
PRIMARIES = 3
NODE_TIMEOUT_S = 1.0
SLOT = key_slot(b"{celery-semaphore}")  # of all keys of a store with the default prefix
READY_TIMEOUT_S = 30.0
FAILOVERS, FAILOVER_TIMEOUT_S = 3, 10.0  # the nodes' own timeout is five seconds


class Node(RedisServer):
    """One of Redis, as Debian packages it."""

    name = "node"

    def __init__(self, port: int = 0, bus_port: int = 0, **options: str) -> None:
        given = {
            "cluster_enabled": "yes",
            "cluster_port": str(bus_port or free_port()),
            "cluster_node_timeout": str(int(NODE_TIMEOUT_S * 1000)),
            "cluster_replica_validity_factor": "0",
            "cluster_allow_replica_migration": "no",
            "repl_diskless_sync_delay": "0",
        }
        super().__init__(**given | options)
        self.port = port or self.port

    def ask(self, *words: Any) -> Any:
        with self.client() as client:
            return client.execute_command(*words)

    @property
    def id(self) -> str:
        return str(self.ask("CLUSTER MYID").decode())

    def info(self, *words: str) -> dict[str, str]:
        lines = self.ask(*words)
        if isinstance(lines, dict):
            return {str(name): str(value) for name, value in lines.items()}
        return dict(line.split(":", 1) for line in lines.decode().splitlines() if ":" in line)

    def is_running(self) -> bool:
        return self.process is not None and self.process.running()

    def is_whole(self) -> bool:
        """Whether it finds all slots served, and follows its primary if it is a replica."""
        with contextlib.suppress(redis.RedisError):
            state, link = self.info("CLUSTER INFO"), self.info("INFO", "replication")
            return (
                state["cluster_state"] == "ok"
                and state["cluster_slots_ok"] == str(SLOTS)
                and state["cluster_known_nodes"] == str(2 * PRIMARIES)
                and link.get("master_link_status", "up") == "up"
                and (link["role"] == "slave" or link["connected_slaves"] == "1")
            )
        return False


class ValkeyNode(Node):
    @classmethod
    def binary(cls) -> Path | None:
        return ValkeyServer.binary()

    @classmethod
    def why_missing(cls) -> str | None:
        return ValkeyServer.why_missing()


class ClusterServer(Server):
    """Six nodes on loopback. A test may kill, stop and move what it likes: ``heal()`` mends it."""

    name = "cluster"
    node: type[Node] = ValkeyNode

    def __init__(self, **options: str) -> None:
        ports = (free_port() for _ in range(4 * PRIMARIES))
        self.nodes = [
            self.node(port, bus, **options) for port, bus in zip(ports, ports, strict=True)
        ]
        self.directory = Path(tempfile.mkdtemp(prefix="cluster-"))
        self.process = None
        self.hurt = False
        self._at_rest: list[Node] = []  # the primaries of a whole cluster, first the owner

    @classmethod
    def why_missing(cls) -> str | None:
        return cls.node.why_missing()

    def start(self) -> Self:
        for node in self.nodes:
            node.start()
        primaries, replicas = self.nodes[:PRIMARIES], self.nodes[PRIMARIES:]
        share = SLOTS // PRIMARIES
        for n, primary in enumerate(primaries):
            last = SLOTS - 1 if primary is primaries[-1] else (n + 1) * share - 1
            primary.ask("CLUSTER ADDSLOTSRANGE", n * share, last)
        for n, node in enumerate(self.nodes):
            node.ask("CLUSTER SET-CONFIG-EPOCH", n + 1)
        first, *others = self.nodes
        for node in others:
            node.ask("CLUSTER MEET", "127.0.0.1", first.port, first.options["cluster_port"])
        self._wait_until(lambda: all(map(_knows_all, self.nodes)), "all nodes know each other")
        for primary, replica in zip(primaries, replicas, strict=True):
            replica.ask("CLUSTER REPLICATE", primary.id)
        self.wait_whole()
        return self

    def stop(self) -> None:
        for node in self.nodes:
            node.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _wait_until(self, predicate: Callable[[], bool], what: str) -> None:
        def said() -> str:
            return "\n".join(node.process.log_tail(15) for node in self.nodes if node.process)

        wait_until(predicate, READY_TIMEOUT_S, what, log=said)

    def wait_whole(self) -> None:
        self._wait_until(lambda: all(node.is_whole() for node in self.nodes), "a whole cluster")
        self._at_rest = [owner := self._found_owner()]
        self._at_rest += [node for node in self._found_primaries() if node is not owner]

    def heal(self) -> None:
        """Undo what a test did to the nodes."""
        if not self.hurt:
            return
        for node in self.nodes:
            if not node.is_running():
                node.start()
            node.resume()
        for node in self._found_primaries():
            with contextlib.suppress(redis.ResponseError):
                node.ask("CLUSTER SETSLOT", SLOT, "STABLE")
        self.wait_whole()
        self.hurt = False

    @property
    def url(self) -> str:
        """The URL that names all nodes, last the one that serves the default prefix at first."""
        ports = [self.nodes[n].port for n in (0, 2, 3, 4, 5, 1)]
        return "redis+cluster://" + ";".join(f"127.0.0.1:{port}" for port in ports)

    def client(self, **options: Any) -> redis.Redis:
        return self.owner().client(**options)

    def primaries(self) -> list[Node]:
        return self._found_primaries() if self.hurt else self._at_rest

    def _found_primaries(self) -> list[Node]:
        return [node for node in self.nodes if node.info("INFO", "replication")["role"] == "master"]

    def flush(self) -> None:
        self.owner().flush()

    def owner(self) -> Node:
        """The node that serves the default prefix, as most of the others see it."""
        return self._found_owner() if self.hurt else self._at_rest[0]

    def _found_owner(self) -> Node:
        seen = [self._owner_seen_by(node) for node in self.nodes if node.is_running()]
        found = max({port for port in seen if port}, key=seen.count)
        return next(node for node in self.nodes if node.port == found)

    def _owner_seen_by(self, node: Node) -> int:
        with contextlib.suppress(redis.RedisError), node.client(socket_timeout=0.3) as client:
            client.response_callbacks.clear()
            for first, last, (_, port, *_), *_ in client.execute_command("CLUSTER", "SLOTS"):
                if first <= SLOT <= last:
                    return int(port)
        return 0

    def kill_owner(self) -> Node:
        """End the owner with SIGKILL; it is started again by ``heal()``."""
        owner = self._to_be_hurt()
        owner.kill()
        return owner

    def pause_owner(self) -> Node:
        owner = self._to_be_hurt()
        owner.pause()
        return owner

    def fail_over(self) -> None:
        """Let the replica take the owner's place, as an operator does."""
        owner = self._to_be_hurt()
        replica = self.replica()
        for _ in range(FAILOVERS):  # the nodes give one up that takes too long on a busy machine
            replica.ask("CLUSTER FAILOVER")
            with contextlib.suppress(TimeoutError):
                self.wait_owner_is_not(owner, FAILOVER_TIMEOUT_S)
                return
        msg = f"{FAILOVERS} failovers came to nothing"
        raise TimeoutError(msg)

    def wait_owner_is_not(self, node: Node, timeout: float = READY_TIMEOUT_S) -> None:
        wait_until(lambda: self.owner() is not node, timeout, "another node serves the slot")

    def begin_migration(self) -> tuple[Node, Node]:
        """Begin to move the slot of the default prefix to another primary, key by key."""
        source = self._to_be_hurt()
        target = self.another()
        target.ask("CLUSTER SETSLOT", SLOT, "IMPORTING", source.id)
        source.ask("CLUSTER SETSLOT", SLOT, "MIGRATING", target.id)
        return source, target

    def end_migration(self, source: Node, target: Node) -> None:
        while keys := source.ask("CLUSTER GETKEYSINSLOT", SLOT, 100):
            source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
        for node in (target, source):
            node.ask("CLUSTER SETSLOT", SLOT, "NODE", target.id)
        self.wait_owner_is_not(source)

    def migrate_at_once(self) -> None:
        """Move the slot as Valkey 9 can, in one step for its clients."""
        source = self._to_be_hurt()
        source.ask("CLUSTER MIGRATESLOTS", "SLOTSRANGE", SLOT, SLOT, "NODE", self.another().id)
        self.wait_owner_is_not(source)

    def _to_be_hurt(self) -> Node:
        owner = self.owner()
        self.hurt = True
        return owner

    def replica(self) -> Node:
        """The replica of the owner."""
        owner = self.owner()
        ports = {str(owner.port), owner.options.get("tls_port", "")}
        return next(
            n for n in self.nodes if n.info("INFO", "replication").get("master_port") in ports
        )

    def another(self) -> Node:
        """A primary that does not serve the default prefix."""
        owner = self.owner()
        return next(node for node in self.primaries() if node is not owner)


def _knows_all(node: Node) -> bool:
    return node.info("CLUSTER INFO")["cluster_known_nodes"] == str(2 * PRIMARIES)
