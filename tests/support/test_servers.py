"""The servers start, stop, forget and remember."""

import kombu
import psycopg
import pytest
import redis as redis_py
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.conftest import StartServer, need
from tests.support.postgres import PostgresServer
from tests.support.process import listening
from tests.support.rabbit import RabbitServer
from tests.support.servers import RedisServer, ValkeyServer


@pytest.fixture(params=[ValkeyServer, RedisServer])
def server_class(request: pytest.FixtureRequest) -> type[RedisServer]:
    need(request.param)
    found: type[RedisServer] = request.param
    return found


def test_it_answers_and_is_gone_afterwards(server_class: type[RedisServer]) -> None:
    with server_class() as server:
        with server.client() as client:
            assert client.set("a", "1")
        assert server.socket.exists()
    assert not listening(server.port)
    assert not server.directory.exists()


def test_valkey_and_redis_are_what_they_say(valkey: ValkeyServer, redis: RedisServer) -> None:
    with valkey.client() as client:
        assert client.info("server")["server_name"] == "valkey"
    with redis.client() as client:
        assert "server_name" not in client.info("server")


def test_a_restart_keeps_or_drops_the_data(server_class: type[RedisServer]) -> None:
    with server_class(appendonly="yes") as server, server.client() as client:
        run_id = client.info("server")["run_id"]
        client.set("a", "1")
        server.restart(keep_data=True)
        assert client.get("a") == b"1"
        assert client.info("server")["run_id"] != run_id
        server.restart(keep_data=False)
        assert client.get("a") is None


def test_a_killed_postgresql_keeps_what_was_committed() -> None:
    need(PostgresServer)
    with PostgresServer() as server:
        server.run("CREATE TABLE a (b int)", "INSERT INTO a VALUES (1)")
        with server.client() as client:
            server.kill()
            assert not listening(server.port)
            with pytest.raises(psycopg.OperationalError):
                client.execute("SELECT 1")
        server.start()
        assert server.run("TABLE a") == [(1,)]


def test_a_server_without_memory_cannot_be_asked_to_keep_data(valkey: ValkeyServer) -> None:
    with pytest.raises(ValueError, match="appendonly"):
        valkey.restart(keep_data=True)


def test_a_paused_server_answers_when_it_goes_on(start_valkey: StartServer) -> None:
    server = start_valkey()
    with server.client(socket_timeout=0.2, retry=None) as client:
        client.ping()
        server.pause()
        with pytest.raises(redis_py.TimeoutError):
            client.ping()
        server.resume()
        assert client.ping()


def test_a_password_is_part_of_the_url(start_redis: StartServer) -> None:
    server = start_redis(requirepass="secret")
    with server.client() as client:
        assert client.ping()
    with (
        redis_py.Redis(port=server.port, retry=Retry(NoBackoff(), 0)) as client,
        pytest.raises(redis_py.AuthenticationError),
    ):
        client.ping()


def test_each_test_finds_its_server_empty(valkey: ValkeyServer) -> None:
    with valkey.client(3) as client:
        client.set("left", "over")
    valkey.flush()
    with valkey.client(3) as client:
        assert client.dbsize() == 0


@pytest.mark.rabbitmq
def test_rabbitmq_delivers(rabbitmq_url: str) -> None:
    with kombu.Connection(rabbitmq_url) as connection, connection.SimpleQueue("q") as queue:
        queue.put({"a": 1})
        message = queue.get(timeout=10)
        assert message.payload == {"a": 1}
        message.ack()


@pytest.mark.variants
@pytest.mark.slow
@pytest.mark.rabbitmq
def test_rabbitmq_remembers_after_a_kill_and_leaves_nothing_running() -> None:
    need(RabbitServer)
    with RabbitServer() as server:
        confirmed = kombu.Connection(server.url, transport_options={"confirm_publish": True})
        with confirmed as connection, connection.SimpleQueue("q") as queue:
            queue.put({"a": 1})
        server.kill()
        assert not listening(server.port)
        server.start()
        with kombu.Connection(server.url) as connection, connection.SimpleQueue("q") as queue:
            assert queue.get(timeout=10).payload == {"a": 1}
    assert not listening(server.port)
    assert not listening(server.epmd_port)
