"""What servers keep of workers that consume queues: no more than of those that live."""

from typing import Any

from celery_semaphore.core.store import CONSUMED_FOR_S
from celery_semaphore.stores.options import StoreOptions
from celery_semaphore.stores.redis.keys import Keys
from tests.support.postgres import PostgresServer
from tests.support.servers import RedisServer

from .test_herd import Hourglass
from .test_processes import OpenStore, any_server, clock, open_store  # noqa: F401 - fixtures


def test_nothing_is_left_of_workers_that_ended(
    any_server: RedisServer | PostgresServer,  # noqa: F811 - a fixture
    open_store: OpenStore,  # noqa: F811
    clock: Hourglass,  # noqa: F811
) -> None:
    """Each had a queue of its own, as with a queue for each host."""
    store = open_store()
    for n in range(20):
        store.consume(f"worker {n}", ["celery", f"queue {n}"])
    clock.now += CONSUMED_FOR_S
    store.consume("lives", ["celery"])
    if isinstance(any_server, PostgresServer):
        found: Any = any_server.run("SELECT queue, worker FROM celery_semaphore.consumer")
        assert found == [("celery", "lives")]
        return
    keys = Keys(StoreOptions.prefix)
    with any_server.client() as client:
        assert client.zrange(keys.consumers("celery"), 0, -1) == [b"lives"]
        for n in range(20):
            left = client.pttl(keys.consumers(f"queue {n}"))
            assert 0 < left <= CONSUMED_FOR_S * 1000, "it ends by itself"
