"""Servers that are stopped under load, and have lost their last moments when they are back."""

from __future__ import annotations

import random
from collections import Counter as Tally
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery_semaphore.core.permit import Permit
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conftest import need
from tests.support.clients import LIMITS, NO_OPTIONS, Clients, claims_on
from tests.support.counter import Counter
from tests.support.postgres import EmbeddedPostgresServer
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.watch import Watch

LEASE = 3.0


@dataclass
class Forgetful:
    """A server: it keeps what it knows at ``save``; when it is restarted the rest is lost."""

    url: str
    save: Callable[[], object]
    restart: Callable[[], object]


@contextmanager
def forgetful(kind: str) -> Iterator[Forgetful]:
    """Start a server of this kind, "valkey" or "postgres"."""
    if kind == "valkey":
        need(ValkeyServer)
        with ValkeyServer() as valkey:
            yield of_valkey(valkey)
    else:
        need(EmbeddedPostgresServer)
        # What is committed reaches the disk with the next durable commit, or else after so long.
        with EmbeddedPostgresServer(wal_writer_delay="10s") as postgres:
            yield of_postgres(postgres)


def of_valkey(server: ValkeyServer) -> Forgetful:
    def save() -> None:
        with server.client() as client:
            client.save()

    def restart() -> None:
        server.kill()
        server.start()

    return Forgetful(server.url, save, restart)


def of_postgres(server: EmbeddedPostgresServer) -> Forgetful:
    def restart() -> None:
        server.stop_immediately()
        server.start()

    server.install()
    return Forgetful(server.url, lambda: server.run("CHECKPOINT"), restart)


def hammer(server: Forgetful, times: int, counter: Counter, notes: Path) -> Tally[str]:
    """Restart the server at any moment of the clients' work; count what their holders were told.

    So many times, and again while it happened to forget nothing that was held: then nothing was tested.
    """

    def entries() -> int:
        return sum(counter.stats(name)["entries"] for name in LIMITS)

    def wait_for(more: int) -> None:
        enough = entries() + more
        wait_until(lambda: entries() >= enough, 30, "clients are admitted")

    with Clients(server.url, counter.address, LEASE, notes) as clients:
        for done in range(4 * times):
            if done >= times and any(note.startswith("restored") for note in clients.notes()):
                break
            wait_for(random.randrange(5, 40))
            server.save()
            wait_for(random.randrange(20))
            server.restart()
            clients.replace_dead()
        wait_for(20)
        Watch(clients, counter).judge()
    told = Tally(note.split(" ")[0] for note in clients.notes())
    return told + Tally(killed=clients.killed, entries=entries())


def all_come_back(url: str, lease: float = LEASE, options: Mapping[str, Any] = NO_OPTIONS) -> None:
    store = store_from_url(url, StoreOptions(lease=lease, transport_options=options))

    def idle() -> bool:
        store.reap()
        return not list(store.resources())

    wait_until(idle, 4 * lease, "all permits come back")
    for name, limit in LIMITS.items():
        answers = [store.acquire(claims_on(name), f"last-{n}") for n in range(limit + 1)]
        assert [isinstance(answer, Permit) for answer in answers] == [True] * limit + [False]
    store.close()
