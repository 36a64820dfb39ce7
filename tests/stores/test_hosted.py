"""Servers that forbid what hosted ones forbid by their documentation: imitations, by an ACL."""

import re
from contextlib import closing

import pytest

from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.stores import store_from_url
from tests.support.process import ROOT
from tests.support.servers import RedisServer

from .conftest import claim, park

ADMIN = "bgrewriteaof bgsave config debug migrate replicaof save slaveof shutdown sync"
SCRIPTS = "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script"
FORBIDDEN = {
    "Amazon ElastiCache, cluster mode disabled": ADMIN,
    "Google Memorystore for Valkey, cluster mode disabled": f"{ADMIN} acl module monitor psync latency",
    "Aiven for Valkey": f"{ADMIN} acl cluster command failover lastsave monitor",
    "Oracle OCI Cache, not sharded": "acl bgrewriteaof bgsave cluster config|set debug migrate module psync"
    " replicaof save shutdown sync",
}
REFUSED = {"Oracle OCI Cache, sharded": SCRIPTS}
HOSTED = (ROOT / "docs/operate/hosted.md").read_text("utf-8")


def as_hosted(server: RedisServer, forbidden: str) -> str:
    """The URL of a user who may use all but these commands."""
    rights = [f"-{name}" for name in forbidden.split()]
    with server.client() as client:
        client.execute_command("ACL", "SETUSER", "hosted", "reset", "on", ">any", "~*", "+@all")
        client.execute_command("ACL", "SETUSER", "hosted", *rights)
    return f"redis://hosted:any@127.0.0.1:{server.port}/0"


@pytest.mark.parametrize("name", FORBIDDEN)
def test_what_it_forbids_is_not_needed(server: RedisServer, name: str) -> None:
    with closing(store_from_url(as_hosted(server, FORBIDDEN[name]))) as store:
        assert store.check() == []
        assert isinstance(store.acquire(claim(), "a"), Permit)
        park(store, "b")
        assert store.snapshot("api").waiting == 1
        store.release("a", claim())


@pytest.mark.parametrize("name", [name for name, how in FORBIDDEN.items() if "config " in how])
def test_whether_parked_tasks_outlive_a_restart_is_not_seen(server: RedisServer, name: str) -> None:
    with closing(store_from_url(as_hosted(server, FORBIDDEN[name]))) as store:
        (warning,) = store.check(parks=True)
    assert "make sure that it has an AOF or save points" in warning


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_forbids_is_needed(server: RedisServer, name: str) -> None:
    store = store_from_url(as_hosted(server, REFUSED[name]))
    with closing(store), pytest.raises(ConfigurationError, match="forbids EVAL"):
        store.check()


def test_the_page_says_which_are_imitated() -> None:
    rows = re.findall(r"^\| ([^|]+?) \|.*\| imitated \|$", HOSTED, re.MULTILINE)
    assert set(rows) == {*FORBIDDEN, *REFUSED}
