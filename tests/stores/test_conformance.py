"""The one suite on every store."""

from typing import Any

import pytest

from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.redis import RedisStore
from celery_semaphore.stores.redis.url import pool_from_url
from celery_semaphore.testing.conformance import StoreConformance
from tests.support.servers import RedisServer


class TestMemoryStore(StoreConformance):
    @pytest.fixture
    def open_store(self) -> type[MemoryStore]:
        return MemoryStore

    def forget(self, store: MemoryStore) -> None:
        store.forget()


class OnServer(StoreConformance):
    @pytest.fixture
    def open_store(self, server: RedisServer) -> Any:
        def open_store(**options: Any) -> RedisStore:
            pool = pool_from_url(server.url, timeout=5.0, transport_options={}, ssl=None)
            return RedisStore(pool, **options)

        self.server = server
        return open_store

    def forget(self, store: RedisStore) -> None:
        with self.server.client() as client:
            client.flushall()


class TestValkeyStore(OnServer):
    @pytest.fixture
    def server(self, valkey: RedisServer) -> RedisServer:
        return valkey


class TestRedisStore(OnServer):
    @pytest.fixture
    def server(self, redis: RedisServer) -> RedisServer:
        return redis


def test_every_memory_store_is_one_of_its_own() -> None:
    assert store_from_url("memory://") is not store_from_url("memory://")
