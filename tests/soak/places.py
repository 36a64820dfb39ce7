"""Brokers and stores that are restarted politely, keep what they have, and tell what is left in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from kombu import Connection

from tests.conftest import need, running
from tests.support.postgres import PostgresServer
from tests.support.rabbit import RabbitServer
from tests.support.servers import ValkeyServer

from .record import OPTIONS, Record, read

VISIBILITY_TIMEOUT_S = 15  # what a lost connection kept unacknowledged comes back after this
REDIS_OPTIONS = {
    "visibility_timeout": VISIBILITY_TIMEOUT_S,
    "unacked_restore_interval": 1,
    "unacked_restore_throttle": 1,
}
QUORUM = {"task_default_queue_type": "quorum", "task_default_exchange_type": "topic"}
WAITING_PARTS = ("holders", "weights", "transit", "line", "tickets", "payloads", "outbox")

Left = dict[str, int]  # what still holds something, and how much


class Place(Protocol):
    """A server that keeps messages or permits over a polite restart."""

    conf: dict[str, Any]  # of the app under test

    @property
    def url(self) -> str: ...

    def stop_politely(self) -> None: ...

    def start(self) -> Any: ...

    def left(self) -> Left: ...


class ValkeyBroker(ValkeyServer):
    """Valkey as the broker of kombu's Redis transport."""

    def __init__(self) -> None:
        super().__init__(**OPTIONS)
        self.conf: dict[str, Any] = {"broker_transport_options": REDIS_OPTIONS}

    def record(self) -> Record:
        """Return what became of each message that it ever had, over its restarts."""
        with self.client() as client:  # the file may lag behind what was answered
            client.set("_record", "")
            [written, _] = client.execute_command("WAITAOF", 1, 0, 10_000)
            assert written, "what was executed is not in the file yet"
        return read(self.directory)

    def left(self) -> Left:
        """Return the sizes of all queues, and of the hash and the index of what is unacknowledged."""
        with self.client() as client:
            keys = (key for key in client.scan_iter() if not key.startswith(b"_kombu."))
            return {key.decode(): size for key in keys if (size := _size(client, key))}


class RabbitBroker(RabbitServer):
    """RabbitMQ with classic or with quorum queues."""

    def __init__(self, conf: dict[str, Any]) -> None:
        super().__init__()
        self.conf = conf

    @property
    def delays(self) -> bool:
        """Tell whether delayed messages are kept by the broker, not by the workers."""
        return self.conf is QUORUM

    def left(self) -> Left:
        """Return the messages of all queues, ready and unacknowledged."""
        listed = self.control("list_queues", "--silent", "name", "messages")
        rows = (line.rsplit("\t", 1) for line in listed.splitlines() if "\t" in line)
        sizes = {name: int(size) for name, size in rows if size.isdigit()}
        return {name: size for name, size in (sizes | self._ready(sizes)).items() if size}

    def _ready(self, names: Left) -> Left:
        """Ask the queues themselves: what `list_queues` knows of a quorum queue is seconds old."""
        with Connection(self.url) as connection, connection.channel() as channel:
            return {
                name: max(size, channel.queue_declare(name, passive=True).message_count)
                for name, size in names.items()
                if not name.endswith(".pidbox")  # exclusive to its worker
            }


class ValkeyStore(ValkeyServer):
    """Valkey that keeps permits and parked messages."""

    def __init__(self) -> None:
        super().__init__(appendonly="yes")
        self.conf: dict[str, Any] = {}

    def left(self) -> Left:
        """Return what holds or waits; what is remembered of released holders may stay."""
        with self.client() as client:
            keys = [k for k in client.scan_iter() if k.decode().endswith(WAITING_PARTS)]
            return {key.decode(): size for key in keys if (size := _size(client, key))}


class PostgresStore(PostgresServer):
    """PostgreSQL that keeps permits and parked messages."""

    def __init__(self) -> None:
        super().__init__()
        self.conf: dict[str, Any] = {}

    def left(self) -> Left:
        """Return what holds or waits; what is remembered of released holders may stay."""
        [[held]] = self.run("SELECT count(*) FROM celery_semaphore.permit WHERE holder IS NOT NULL")
        [[waiting]] = self.run("SELECT count(*) FROM celery_semaphore.waiter")
        return {name: n for name, n in {"permits": held, "waiters": waiting}.items() if n}


@contextmanager
def broker_of(kind: str) -> Iterator[Place]:
    """Run a broker of this kind."""
    if kind == "redis":
        with running(ValkeyBroker) as valkey:
            yield valkey
        return
    need(RabbitServer)
    with RabbitBroker(QUORUM if kind == "quorum" else {}) as rabbit:
        yield rabbit


@contextmanager
def store_of(kind: str) -> Iterator[Place]:
    """Run a store of this kind."""
    if kind == "valkey":
        with running(ValkeyStore) as valkey:
            yield valkey
        return
    with running(PostgresStore) as postgres:
        postgres.install()
        yield postgres


def _size(client: Any, key: bytes) -> int:
    """Return how many a list, a hash or an index holds; a text or a set is no message."""
    match client.type(key):
        case b"list":
            return int(client.llen(key))
        case b"hash":
            return int(client.hlen(key))
        case b"zset":
            return int(client.zcard(key))
    return 0
