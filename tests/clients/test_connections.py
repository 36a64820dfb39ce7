"""Servers with users, rights, databases and certificates, and what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from celery_semaphore import Semaphore, SemaphoreTimeout
from tests.support import authority
from tests.support.authority import Authority, redis_query
from tests.support.calling import SOON
from tests.support.process import free_port, wait_until
from tests.support.rights import as_user
from tests.support.servers import ValkeyServer, in_ci

from .caller import Caller, CallerError
from .conftest import StartCaller

pytestmark = pytest.mark.timeout(400)
LEASE_MS = 5000


def test_the_documented_rights_are_enough(valkey: ValkeyServer, caller: Caller) -> None:
    caller.open(as_user(valkey), limit=1)
    caller.acquire()
    waits = caller.begin("acquire", **{"at": "api", "as": "b"})
    wait_until(lambda: Semaphore("api", 1, url=valkey.url)._seen().waiting == 1, SOON)
    caller.release()
    assert waits.result(SOON)["token"]


def test_a_server_that_forbids_info(valkey: ValkeyServer, caller: Caller) -> None:
    caller.open(as_user(valkey, "+info"), limit=1)
    assert caller.acquire()["token"]


def test_another_database(valkey: ValkeyServer, caller: Caller) -> None:
    caller.open(valkey.database(3), limit=1)
    caller.acquire()
    assert Semaphore("api", 1, url=valkey.url).available() == 1
    assert Semaphore("api", 1, url=valkey.database(3)).available() == 0


REFUSED = r"^SemaphoreError: The store refused the user, the password or the database"


@pytest.mark.parametrize("wrong", ["redis://:no@127.0.0.1:{}/0", "redis://127.0.0.1:{}/99"])
def test_a_wrong_url_is_an_error_at_once(valkey: ValkeyServer, caller: Caller, wrong: str) -> None:
    caller.open(wrong.format(valkey.port), limit=1)
    with pytest.raises(CallerError, match=REFUSED):
        caller.acquire()


def test_missing_rights_are_an_error_at_once(valkey: ValkeyServer, caller: Caller) -> None:
    """Until they are given, without a restart of the program."""
    caller.open(as_user(valkey, "+evalsha"), limit=1)
    for _ in range(2):
        with pytest.raises(CallerError, match=REFUSED):
            caller.acquire()
    as_user(valkey)
    assert caller.acquire()["token"]


def test_a_password_that_is_mended(valkey: ValkeyServer, caller: Caller) -> None:
    url = as_user(valkey)
    with valkey.client() as client:
        client.execute_command("ACL", "DELUSER", "shop")
    caller.open(url, limit=1)
    with pytest.raises(CallerError, match=REFUSED):
        caller.acquire()
    as_user(valkey)
    assert caller.acquire()["token"]


def test_a_newer_format(valkey: ValkeyServer, caller: Caller) -> None:
    """Nothing that it calls is possible: what it holds counts as lost in time, and its release is no error."""
    caller.open(valkey.url, limit=1, leaseMs=LEASE_MS)
    caller.acquire()
    with valkey.client() as client:
        client.hset("{celery-semaphore}:epoch", "format", 2)
    with pytest.raises(CallerError, match="has format 2, and this release reads up to format 1"):
        caller.acquire(**{"as": "b"}, timeoutMs=0)
    assert caller.ask("isLost", **{"as": "a"}) is False
    said = wait_until(lambda: caller.ask("isLost", **{"as": "a"}), SOON)
    assert "not renewed for" in said
    caller.release()


def test_tls(tmp_path: Path, start_redis: Any, start_caller: StartCaller) -> None:
    if missing := authority.why_missing():
        (pytest.fail if in_ci() else pytest.skip)(missing)
    ours, port = Authority(tmp_path / "ours"), free_port()
    server, client = ours.sign("server"), ours.sign("shop")
    given = {
        "tls_cert_file": server.cert,
        "tls_key_file": server.key,
        "tls_ca_cert_file": ours.ca,
    }
    start_redis(tls_port=str(port), **{name: str(path) for name, path in given.items()})
    url = f"rediss://127.0.0.1:{port}/0"
    caller = start_caller().open(f"{url}?{redis_query(ours.ca, client)}", limit=1)
    assert caller.acquire()["token"]
    with pytest.raises(SemaphoreTimeout):
        Semaphore("api", 1, url=f"{url}?{redis_query(ours.ca, client)}").acquire(timeout=0)
    stranger = start_caller().open(url, limit=1)
    with pytest.raises(CallerError, match="certificate") as refused:
        stranger.acquire(timeoutMs=0)
    assert refused.value.cause == "StoreUnavailable"
