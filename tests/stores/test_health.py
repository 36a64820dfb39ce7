"""Servers that must not be used, and what is said about them."""

import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from tempfile import NamedTemporaryFile
from typing import Any

import pytest

from celery_semaphore import Semaphore
from celery_semaphore.core.declared_limit import DeclaredLimit
from celery_semaphore.core.key import all_keys_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.redis.connection import plain
from celery_semaphore.stores.redis.health import examine
from tests.support.servers import RedisServer

from .conftest import OpenAt, claim

StartServer = Callable[..., RedisServer]
SECRET = "s3cret"


@pytest.fixture
def replica(start_redis: StartServer) -> Iterator[RedisServer]:
    with ExitStack():
        primary = start_redis()
        replica = start_redis()
        with replica.client() as client:
            client.replicaof("127.0.0.1", primary.port)
        yield replica


def forbidding(command: str, server: RedisServer, database: int = 0) -> str:
    """The URL of a user who may not use this command."""
    with server.client() as client:
        client.acl_setuser(
            "worker",
            enabled=True,
            passwords=[f"+{SECRET}"],
            keys=["*"],
            channels=["*"],
            commands=["+@all", f"-{command}"],
        )
    return server.database(database).replace("//", f"//worker:{SECRET}@")


def test_a_good_server(server: RedisServer) -> None:
    assert store_from_url(server.url).check() == []


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-random"])
def test_a_server_that_would_evict_permits(start_server: StartServer, policy: str) -> None:
    server = start_server(maxmemory_policy=policy)
    with pytest.raises(ConfigurationError, match=f"{policy}.*noeviction"):
        store_from_url(server.url).check()


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru"])
def test_a_server_that_would_not(start_server: StartServer, policy: str) -> None:
    assert store_from_url(start_server(maxmemory_policy=policy).url).check() == []


def test_a_server_that_forbids_config(start_server: StartServer) -> None:
    """INFO tells the same."""
    assert store_from_url(forbidding("config", start_server())).check() == []
    evicts = start_server(maxmemory_policy="allkeys-lru")
    with pytest.raises(ConfigurationError, match="allkeys-lru"):
        store_from_url(forbidding("config", evicts)).check()


def test_a_server_that_hides_its_run_id(server: RedisServer, open_at: OpenAt) -> None:
    """As proxies in front of several servers do."""
    store = open_at(server.url)
    told = partial(plain, command=("INFO", "everything"))
    info = re.sub(rb"run_id:.*\r\n", b"", store._link.ask(told))
    (warning,) = store._link.ask(lambda connection: examine(Tells(connection, info), "{p}:check"))
    assert "hides run_id" in warning
    assert "+info" in warning


@pytest.mark.parametrize("kept", [{"appendonly": "yes"}, {"save": "3600 1"}])
def test_a_server_that_keeps_parked_tasks(start_server: StartServer, kept: dict[str, str]) -> None:
    assert store_from_url(start_server(**kept).url).check(parks=True) == []


def test_a_server_that_would_lose_parked_tasks(server: RedisServer) -> None:
    (warning,) = store_from_url(server.url).check(parks=True)
    assert "neither an AOF nor save points" in warning
    assert "appendonly yes" in warning
    assert "on_saturated='requeue'" in warning


def test_a_server_that_does_not_say_whether_it_loses_them(start_server: StartServer) -> None:
    store = store_from_url(forbidding("config", start_server()))
    assert any("make sure that it has an AOF" in warning for warning in store.check(parks=True))


def test_memory_loses_parked_tasks() -> None:
    store = store_from_url("memory://")
    assert store.check() == []
    (warning,) = store.check(parks=True)
    assert "lost when it ends" in warning


def test_a_server_that_forbids_info(start_server: StartServer) -> None:
    server = start_server()
    store = store_from_url(forbidding("info", server))
    (warning,) = store.check()
    assert "INFO" in warning
    assert isinstance(store.acquire(claim(2), "a"), Permit)
    assert isinstance(store_from_url(server.url).acquire(claim(2), "b"), Permit)


@pytest.mark.parametrize("policy", ["noeviction", "allkeys-lru"])
def test_a_hoster_that_renamed_info(start_server: StartServer, policy: str) -> None:
    """It is reached, and what can be seen of it is looked at."""
    server = start_server(
        maxmemory_policy=policy, appendonly="yes", include=commands_renamed("INFO")
    )
    store = store_from_url(server.url)
    if policy == "allkeys-lru":
        with pytest.raises(ConfigurationError, match="noeviction"):
            store.check()
        return
    (warning,) = store.check(parks=True)
    assert "forbids INFO" in warning
    assert isinstance(store.acquire(claim(), "a"), Permit)


def test_a_hoster_that_renamed_info_and_config(start_server: StartServer) -> None:
    server = start_server(include=commands_renamed("INFO", "CONFIG"))
    info, eviction = store_from_url(server.url).check()
    assert "forbids INFO" in info
    assert "forbids CONFIG" in eviction


def test_a_user_without_channels(start_server: StartServer) -> None:
    """A call that waits asks for its grant: nothing is published."""
    server = start_server()
    with server.client() as client:
        client.acl_setuser("worker", enabled=True, nopass=True, keys=["*"], commands=["+@all"])
        client.execute_command("ACL", "SETUSER", "worker", "resetchannels")
    url = server.url.replace("//", "//worker:any@")
    store = store_from_url(url)
    assert store.check() == []
    assert isinstance(store.acquire(claim(), "a"), Permit)
    api, since = Semaphore("api", 1, url=url, timeout=20), time.monotonic()
    other = threading.Timer(0.3, store.release, ["a", claim()])
    other.start()
    with api:
        assert time.monotonic() - since < 5
    other.join()


def commands_renamed(*names: str) -> str:
    """The path of a configuration that takes these commands away."""
    with NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
        file.writelines(f'rename-command {name} ""\n' for name in names)
    return file.name


def test_a_client_that_is_forbidden_info_sees_no_restart(start_server: StartServer) -> None:
    """It does not learn the server's run, which is no reason to doubt what another client wrote."""
    server = start_server()
    permitted = store_from_url(server.url)
    assert isinstance(permitted.acquire(claim(9), "a"), Permit)
    with server.client() as client:
        client.acl_setuser(
            "worker", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-info"]
        )
    store = store_from_url(server.url.replace("//", "//worker:any@"))
    assert isinstance(store.acquire(claim(9), "b"), Permit)
    assert store.epoch == permitted.epoch


def test_a_wrong_password(start_server: StartServer) -> None:
    server = start_server(requirepass=SECRET)
    url = server.url.replace(SECRET, "wr0ng")
    for wrong in (url, url.replace(":wr0ng@", "")):
        with pytest.raises(ConfigurationError, match="password") as caught:
            store_from_url(wrong).check()
        assert "wr0ng" not in str(caught.value)
        with pytest.raises(StoreUnavailable) as caught_later:
            store_from_url(wrong).acquire(claim(), "a")
        assert "wr0ng" not in str(caught_later.value)


def test_a_replica(replica: RedisServer) -> None:
    with pytest.raises(ConfigurationError, match=r"replica.*primary"):
        store_from_url(replica.url).check()
    with pytest.raises(StoreUnavailable):
        store_from_url(replica.url).acquire(claim(), "a")


def test_an_old_server() -> None:
    with pytest.raises(ConfigurationError, match=r"6\.0\.16.*6\.2"):
        examine(
            Answers("redis_version:6.0.16\r\nrole:master\r\nredis_mode:standalone\r\n"), "{p}:check"
        )


def test_nobody_answers() -> None:
    with pytest.raises(StoreUnavailable) as caught:
        store_from_url(f"redis://:{SECRET}@127.0.0.1:1/0").check()
    assert SECRET not in str(caught.value)


def test_a_full_server(start_server: StartServer) -> None:
    server = start_server(maxmemory="100kb", maxmemory_policy="noeviction")
    store = store_from_url(server.url)
    store.reap()  # as each worker does first: it writes an epoch, which a full server must take
    with pytest.raises(StoreUnavailable, match="OOM"):
        store.acquire(claim(), "a")


def test_a_full_server_takes_what_workers_declare(start_server: StartServer) -> None:
    """Else the one in force would lapse, and a higher one lift the limit once there is memory again."""
    store = store_from_url(start_server(maxmemory="100kb", maxmemory_policy="noeviction").url)
    store.reap()
    for name in ("api", all_keys_of("api")):
        assert store.declare({name: 5}, "w") == {name: DeclaredLimit(5, "w")}


class Tells:
    """A connection to a server, but for its INFO."""

    def __init__(self, connection: Any, info: bytes) -> None:
        self.connection, self.info, self.asked = connection, info, False
        self.host, self.port, self.db = connection.host, connection.port, connection.db

    def send_command(self, *words: object) -> None:
        self.asked = words[0] == "INFO"
        if not self.asked:
            self.connection.send_command(*words)

    def read_response(self) -> Any:
        return self.info if self.asked else self.connection.read_response()

    def send_packed_command(self, command: list[bytes]) -> None:
        self.asked = False
        self.connection.send_packed_command(command)


class Answers:
    """A connection to a server that only knows its INFO."""

    def __init__(self, info: str) -> None:
        self.info = info

    def send_command(self, *words: object) -> None:
        pass

    def read_response(self) -> bytes:
        return self.info.encode()
