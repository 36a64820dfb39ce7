"""Users who may do only what the documentation grants, and users who lack a part of it."""

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.stores import store_from_url
from celery_semaphore.stores.redis import scripts
from celery_semaphore.stores.redis.rights import SCRIPTED, commands
from tests.support.rights import USER, as_user, documented_acl
from tests.support.servers import RedisServer

from .conftest import claim

CALLED = re.compile(r'\bcall\("?(\w+)')
LUA = Path(scripts.__file__).with_name("lua")


def refusal(url: str) -> str:
    with closing(store_from_url(url)) as store, pytest.raises(ConfigurationError) as caught:
        store.check()
    return str(caught.value)


def test_the_documentation_grants_what_is_called() -> None:
    granted = {word[1:].upper() for word in documented_acl() if word.startswith("+")}
    assert granted == set(commands())


def test_each_command_of_the_scripts_is_probed() -> None:
    texts = [path.read_text("utf-8") for path in LUA.glob("*.lua")]
    called = {name for text in texts for name in CALLED.findall(text)}
    assert called == {probe.split()[0] for probe in SCRIPTED}


def test_the_documented_rights_suffice_for_a_start(server: RedisServer) -> None:
    with server.client() as client:
        client.acl_log_reset()
    with closing(store_from_url(as_user(server, database=1))) as store:
        assert store.check() == []
        assert isinstance(store.acquire(claim(), "a"), Permit)
    with server.client() as client:
        denied = [entry["object"] for entry in client.acl_log() if entry["username"] == USER]
    assert set(denied) <= {"client|setinfo", "config|get", "client"}


def test_a_check_writes_nothing(server: RedisServer) -> None:
    with closing(store_from_url(as_user(server))) as store:
        store.check()
    with server.client() as client:
        assert client.keys() == []


OPTIONAL = {"EVAL", "INFO", "SELECT"}  # other tests are about these


@pytest.mark.parametrize("name", sorted(set(commands()) - OPTIONAL))
def test_a_missing_right_is_named(server: RedisServer, name: str) -> None:
    said = refusal(as_user(server, f"+{name.lower()}"))
    assert re.search(rf"\b{name}\b", said)
    assert f"+{name.lower()}" in said


def test_all_missing_rights_are_named_at_once(server: RedisServer) -> None:
    said = refusal(as_user(server, "+hset", "+zadd", "+evalsha"))
    assert said.startswith("The store forbids HSET, ZADD, EVALSHA, which")
    assert "ACL SETUSER <user> +hset +zadd +evalsha" in said


def test_no_right_to_a_database(server: RedisServer) -> None:
    said = refusal(as_user(server, "+select", database=1))
    assert "select" in said
    assert "+select" in said


def test_no_right_to_scripts(server: RedisServer) -> None:
    said = refusal(as_user(server, "+eval", "+evalsha"))
    assert said.startswith("The store forbids EVAL (")
    assert "cannot keep permits" in said


def test_no_right_to_the_keys(server: RedisServer) -> None:
    said = refusal(as_user(server, "~{celery-semaphore}:*"))
    assert "~{celery-semaphore}:*" in said
    assert "forbids EVAL" not in said


def test_a_server_that_has_no_scripts(
    start_server: Callable[..., RedisServer], tmp_path: Path
) -> None:
    """As a hosted server that has no EVAL at all: its name is unknown there."""
    renamed = tmp_path / "renamed.conf"
    renamed.write_text('rename-command EVAL ""\nrename-command EVALSHA ""\n')
    said = refusal(start_server(include=str(renamed)).url)
    assert "forbids EVAL (unknown command" in said
    assert "one script" in said


def test_a_server_that_renamed_a_command_of_the_scripts(
    start_server: Callable[..., RedisServer], tmp_path: Path
) -> None:
    renamed = tmp_path / "renamed.conf"
    renamed.write_text('rename-command ZUNIONSTORE ""\n')
    assert refusal(start_server(include=str(renamed)).url).startswith("The store forbids ZUNIONST")


def test_a_full_server_forbids_nothing(start_server: Callable[..., RedisServer]) -> None:
    """It refuses to write, which is no matter of rights: a worker may start and wait."""
    server = start_server(maxmemory="100kb", maxmemory_policy="noeviction")
    with closing(store_from_url(server.url)) as store:
        assert store.check() == []
