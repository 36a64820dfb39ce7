"""Find the node of a Redis Cluster that serves the hash slot of a store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import redis
from redis.connection import ConnectionPool
from redis.exceptions import AskError, ClusterDownError, MovedError, TryAgainError

from .connection import new_connection, plain
from .errors import is_of_handshake
from .finder import PAUSE_S, QUESTION_TIMEOUT_S, Address
from .tls import UNANSWERED

Remap = Callable[[Address], Address]

REMAP = (
    "if the addresses that the Cluster announces do not lead to its nodes from here, give address_remap in"
    " semaphore_transport_options"
)
NO_CLUSTER = "cluster support disabled"  # in the error of a server that is no node of a Cluster


class NodeFinder:
    """Decides to which node a pool connects: the one that serves the hash slot of the store.

    It knows nodes only of a Redis Cluster, and lets the pool of any other server connect where its URL says. It has
    neither a lock nor a connection of its own: what it knows is replaced as a whole, so that threads, signal handlers
    and forked processes can use it.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        slot: int,
        seeds: Iterable[Address] = (),
        remap: Remap | None = None,
    ) -> None:
        self._pool = pool
        self._slot = slot
        self._remap = remap
        self.nodes = tuple(seeds)
        # Their names may lead to other addresses, when all nodes have been replaced.
        self._seeds = self.nodes or (self.place,)
        self._introduce = pool.connection_kwargs["redis_connect_func"]
        self._moves = (
            "path" not in pool.connection_kwargs
        )  # no other server is behind a unix socket
        if self._moves:
            pool.connection_kwargs["redis_connect_func"] = self._meet

    @property
    def place(self) -> Address:
        """The address to which the pool connects."""
        given = self._pool.connection_kwargs
        return given.get("host", "localhost"), int(given.get("port", 6379))

    @property
    def seeks(self) -> bool:
        """Whether the server is a node of a Cluster."""
        return bool(self.nodes)

    def look(self) -> None:
        """Ask nothing before a call: a node that does not serve the slot says which one does."""

    def leads_to(self, connection: Any) -> bool:  # noqa: ARG002 - the finder of a primary needs it
        """Return True: after an error the link closes all connections, and new ones lead to the node."""
        return True

    def follow(self, error: redis.RedisError, deadline: float) -> None:
        """Let the pool connect to the node that serves the slot now, after this error."""
        if not self._moves:
            return
        before = self.place
        if isinstance(error, MovedError):
            self._go(self._address(error.host, error.port, before[0]))
        elif self.nodes and not isinstance(error, (AskError, TryAgainError)):  # while it migrates
            self._ask_nodes(deadline)
        if self.nodes and self.place == before:
            time.sleep(min(PAUSE_S, max(0.0, deadline - time.monotonic())))

    def _go(self, address: Address) -> None:
        host, port = address
        self.nodes = _each_once((*self.nodes, self.place, address))
        # A new dict: another thread may be making a connection from the old one.
        self._pool.connection_kwargs = self._pool.connection_kwargs | {"host": host, "port": port}

    def _ask_nodes(self, deadline: float) -> None:
        """Ask one node after the other which of them serves the slot; last the one that failed."""
        for node in sorted(self.nodes, key=self.place.__eq__):
            left = min(QUESTION_TIMEOUT_S, deadline - time.monotonic())
            if left <= 0:
                return
            connection = new_connection(self._pool, left, node)
            try:
                connection.connect()
            except redis.RedisError:
                # Ask it last from now on: some that are gone must not take the time of each call.
                self.nodes = _each_once((*(each for each in self.nodes if each != node), node))
                continue
            finally:
                connection.disconnect()
            # If it does not know, or CLUSTER is forbidden, it answers the call itself, by MOVED perhaps.
            self._go(connection.semaphore_serving or node)
            return

    def _meet(self, connection: Any) -> None:
        """Introduce the connection, and learn from a node of a Cluster which others there are."""
        self._introduce(connection)
        connection.semaphore_serving = None
        if not connection.semaphore_is_node and not self.nodes:
            return
        try:
            ranges = plain(connection, ("CLUSTER", "SLOTS"))
        except redis.ResponseError as error:
            if NO_CLUSTER in str(error) and len(self.nodes) > 1:  # the permits are at another one
                raise redis.ConnectionError(str(error)) from error
            return  # it is forbidden: go where MOVED says
        asked = (connection.host, connection.port)
        found = list[Address]()
        for first, last, *nodes in ranges:
            addresses = [self._address(node[0], node[1], asked[0]) for node in nodes]
            found += addresses
            if first <= self._slot <= last:
                connection.semaphore_serving = addresses[0]
        # Ask this one last the next time, in case its view is stale.
        others = [node for node in (*found, *self._seeds) if node != asked]
        if connection.semaphore_serving is None:  # it has lost its view: others may still have one
            others += [node for node in self.nodes if node != asked]
        self.nodes = _each_once((*others, asked))

    def _address(self, host: bytes | str | None, port: int, same: str) -> Address:
        name = host.decode() if isinstance(host, bytes) else host
        # A node that does not know its own address announces nothing, or a question mark.
        address = (same if name in {None, "", "?"} else str(name), port)
        if self._remap is None:
            return address
        try:
            host, port = self._remap(address)
        except Exception as error:
            msg = f"address_remap raised {error!r} for {address!r}, a node of the store's Redis Cluster"
            raise redis.ConnectionError(msg) from error
        return host, int(port)

    def explain(self, error: redis.RedisError) -> None:
        """Note at the error which server gave it, and in a Cluster what can be done."""
        host, port = self.place
        if self.nodes:
            error.add_note(
                f"node {host}:{port} of a Redis Cluster, slot {self._slot}{_advice(error)}"
            )
        elif isinstance(error, redis.TimeoutError) and self._moves:
            # Unlike its other errors, redis-py's timeouts name no server.
            speaks_tls = issubclass(self._pool.connection_class, redis.SSLConnection)
            how = UNANSWERED if speaks_tls and is_of_handshake(error) else ""
            error.add_note(f"{how}{host}:{port}")


def _advice(error: redis.RedisError) -> str:
    if NO_CLUSTER in str(error):
        return ": name nodes of one Redis Cluster in semaphore_url, or remove +cluster from it"
    if isinstance(error, (TryAgainError, AskError)) and not isinstance(error, MovedError):
        return ": the slot is being moved to another node, and calls wait until that is done"
    if isinstance(error, ClusterDownError):
        return (
            ": a node is lost and not replaced yet, or slots have no node; CLUSTER INFO says more"
        )
    if isinstance(error, MovedError):
        return f": {REMAP}"
    if isinstance(error, (redis.ConnectionError, redis.TimeoutError)):
        return f": no node that is known here answers; {REMAP}"
    return ""


def _each_once(nodes: Iterable[Address]) -> tuple[Address, ...]:
    return tuple(dict.fromkeys(nodes))
