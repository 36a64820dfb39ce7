"""A failover that sentinels decide: the permits are where the new primary is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from celery_semaphore.core.permit import Answer, Permit, Reason, Refusal, Renewal
from celery_semaphore.core.store import Store
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.options import StoreOptions
from tests.conftest import need
from tests.support.process import Process, free_port, wait_until
from tests.support.servers import RedisServer

from .conftest import claim, permit_of

WATCHED = """\
port {port}
dir {folder}
sentinel monitor main 127.0.0.1 {primary} 1
sentinel down-after-milliseconds main 300
sentinel failover-timeout main 3000
"""


@dataclass
class Watched:
    """A primary with a replica, and who promotes it."""

    primary: RedisServer
    replica: RedisServer
    sentinel: Process
    url: str

    def known(self) -> bool:
        """Whether the sentinel has heard of the replica, and would promote it."""
        with redis.Redis.from_url(self.url.replace("sentinel:", "redis:")) as client:
            with contextlib.suppress(redis.ConnectionError):
                return len(client.sentinel_slaves("main")) == 1
            return False


def follows(replica: RedisServer) -> bool:
    with replica.client() as client:
        return client.info("replication")["master_link_status"] == "up"


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    need(RedisServer)
    binary = RedisServer.binary()
    assert binary
    with RedisServer(repl_diskless_sync_delay="0") as primary, RedisServer() as replica:
        port, conf = free_port(), tmp_path / "sentinel.conf"
        conf.write_text(WATCHED.format(port=port, folder=tmp_path, primary=primary.port))
        with replica.client() as client:
            client.replicaof("127.0.0.1", primary.port)
        # A sentinel asks for replicas at its start, and then every ten seconds.
        wait_until(lambda: follows(replica), 20, "the replica follows")
        with Process(f"sentinel-{port}", [binary, conf, "--sentinel"]) as sentinel:
            watched = Watched(primary, replica, sentinel, f"sentinel://127.0.0.1:{port}")
            wait_until(watched.known, 20, "the sentinel knows it", log=sentinel.log)
            yield watched


@pytest.fixture
def store(watched: Watched) -> Iterator[Store]:
    options = {"master_name": "main"}
    store = store_from_url(
        watched.url, StoreOptions(lease=6.0, timeout=1.0, transport_options=options)
    )
    yield store
    store.close()


def answered(store: Store, holder: str) -> Answer | None:
    with contextlib.suppress(StoreUnavailable):
        return store.acquire(claim(2), holder)
    return None


def test_who_runs_keeps_its_permit_over_a_failover(store: Store, watched: Watched) -> None:
    held = [permit_of(store.acquire(claim(2), holder)) for holder in "ab"]
    wait_until(lambda: followed(watched), 5, "both are at the replica")
    watched.primary.kill()
    answer = wait_until(lambda: answered(store, "new"), 30, "an answer", log=watched.sentinel.log)
    assert isinstance(answer, Refusal)
    assert answer.reason is Reason.RECOVERING
    assert set(store.renew(held).values()) <= {Renewal.OK, Renewal.RESTORED}
    store.release("a", claim(2))
    wait_until(lambda: isinstance(answered(store, "newer"), Permit), 10, "the grace ends")
    assert not isinstance(answered(store, "newest"), Permit), "b still runs"


def followed(watched: Watched) -> bool:
    with watched.primary.client() as client:
        info = client.info("replication")
        return bool(info["slave0"]["offset"] == info["master_repl_offset"])
