"""Start the servers of a deployment: a broker for messages, and a store for permits."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, cast

from celery import Celery

from tests.support.postgres import EmbeddedPostgresServer
from tests.support.rabbit import RabbitServer
from tests.support.servers import ValkeyServer

ON = "BENCH_ON"  # the environment variable that names the deployment
QUEUE = "celery"
STAGED = "staged"  # the list that holds tasks before workers may see them

Tasks = Iterable[tuple[str, list[Any]]]


@dataclass(frozen=True)
class Deployment:
    """Describes servers and workers; Valkey is the broker and the store unless others are named."""

    rabbitmq: bool = False  # is the broker
    postgresql: bool = False  # is the store
    pool: str = "prefork"


DEPLOYMENTS = {
    "valkey": Deployment(),
    "postgresql": Deployment(postgresql=True),
    "rabbitmq": Deployment(rabbitmq=True, postgresql=True),
    "threads": Deployment(pool="threads"),
}


def chosen() -> Deployment:
    return DEPLOYMENTS[os.environ.get(ON, "valkey")]


class Broker(Protocol):
    """Keeps messages where no worker sees them, until they are released."""

    url: str

    def stage(self, sender: Celery, tasks: Tasks) -> int:
        """Keep more tasks; return how many."""

    def release(self) -> None:
        """Give the workers all that was kept."""


class ValkeyBroker:
    """Keeps messages in a list that is renamed to the queue: workers see all at one instant."""

    def __init__(self, server: ValkeyServer) -> None:
        self.url = server.url
        self._client = server.client()

    def stage(self, sender: Celery, tasks: Tasks) -> int:
        count = _send(sender, tasks, routing_key=QUEUE, queue=STAGED)
        # A worker puts a message back where it came from, so it must name the workers' queue.
        raw = [
            each.replace(b'"routing_key": "staged"', b'"routing_key": "celery"')
            for each in cast("list[bytes]", self._client.lrange(STAGED, 0, -1))
        ]
        self._client.delete(STAGED)
        for n in range(0, len(raw), 500):
            self._client.rpush(STAGED, *raw[n : n + 500])
        return count

    def release(self) -> None:
        self._client.rename(STAGED, QUEUE)

    def close(self) -> None:
        self._client.close()


class RabbitBroker:
    """Publishes messages when they are released: RabbitMQ moves none from queue to queue by itself."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._kept: list[tuple[Celery, list[tuple[str, list[Any]]]]] = []

    def stage(self, sender: Celery, tasks: Tasks) -> int:
        kept = list(tasks)
        self._kept.append((sender, kept))
        return len(kept)

    def release(self) -> None:
        for sender, tasks in self._kept:
            _send(sender, tasks, queue=QUEUE)
        self._kept.clear()


def _send(sender: Celery, tasks: Tasks, **options: str) -> int:
    count = 0
    with sender.producer_pool.acquire() as producer:
        for name, args in tasks:
            sender.send_task(name, args, producer=producer, **options)
            count += 1
    return count


@cache
def _rabbit() -> RabbitServer:
    """Start the node of this run: a start takes longer than many a benchmark."""
    server = RabbitServer()
    atexit.register(server.stop)
    return server.start()


@contextlib.contextmanager
def broker(deployment: Deployment, valkey: ValkeyServer) -> Iterator[Broker]:
    """Provide an empty broker."""
    if deployment.rabbitmq:
        url = _rabbit().virtual_host()
        yield RabbitBroker(url)
        _rabbit().control("delete_vhost", url.rpartition("/")[2])
    else:
        with contextlib.closing(ValkeyBroker(valkey)) as made:
            yield made


@contextlib.contextmanager
def store_url(deployment: Deployment, valkey: ValkeyServer) -> Iterator[str]:
    """Provide an empty store; the tables of PostgreSQL are not installed."""
    if deployment.postgresql:
        with EmbeddedPostgresServer() as server:
            yield server.url
    else:
        yield valkey.url
