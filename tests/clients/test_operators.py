"""Operators see permits and waits of a client, and change its limits, as those of tasks."""

from __future__ import annotations

import json

import pytest

from tests.django.conftest import client, database, django_project, make_app, project
from tests.django.pages import Login, address
from tests.support.calling import SOON
from tests.support.process import ROOT, wait_until
from tests.support.python import forked
from tests.support.servers import ValkeyServer

from .caller import Caller, CallerError
from .conftest import OpenStore

__all__ = ["client", "database", "django_project", "make_app", "project"]  # fixtures

pytestmark = pytest.mark.timeout(400)
LEASE_S = 6.0  # renewed within two seconds, also where a command takes its time


def says(valkey: ValkeyServer, *words: str, code: int = 0) -> str:
    arguments = ["-b", valkey.url, "semaphore", *words]
    done = forked("celery", *arguments, env={"PYTHONPATH": str(ROOT)})
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def shown(holder: str) -> str:
    """The name of a holder, as operators read it: its host and its process."""
    return holder.rpartition(":")[0]


def test_a_limit(valkey: ValkeyServer, caller: Caller, open_store: OpenStore) -> None:
    store = open_store(valkey.url)
    caller.open(valkey.url, limit=2)
    caller.acquire()
    store.set_limit(1, "api")
    assert caller.ask("available", at="api") == 0
    waits = caller.begin("acquire", **{"at": "api", "as": "b"})
    wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
    store.set_limit(2, "api")
    assert waits.result(SOON)["token"]


def test_a_pause(valkey: ValkeyServer, caller: Caller, open_store: OpenStore) -> None:
    store = open_store(valkey.url)
    caller.open(valkey.url, limit=2)
    store.pause("api")
    assert caller.ask("available", at="api") == 0
    with pytest.raises(CallerError, match="paused"):
        caller.acquire(timeoutMs=0)
    waits = caller.begin("acquire", **{"at": "api", "as": "b"})
    wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
    store.resume("api")
    assert waits.result(SOON)["token"]


def test_a_permit_that_is_taken_away(
    valkey: ValkeyServer, caller: Caller, open_store: OpenStore
) -> None:
    """Its holder is told by the next renewal; the next one has it at once."""
    store = open_store(valkey.url, lease=LEASE_S)
    caller.open(valkey.url, limit=1, leaseMs=LEASE_S * 1000)
    holder = caller.acquire()["holder"]
    waits = caller.begin("acquire", **{"at": "api", "as": "b"})
    wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
    said = says(valkey, "take-away", "api", shown(holder), "--force")
    assert f"Took away the permit of {shown(holder)}" in said
    assert waits.result(SOON)["token"]
    told = wait_until(lambda: caller.ask("isLost", **{"as": "a"}), SOON)
    assert "PermitLost" in told
    assert "its lease ended in the store" in told
    with pytest.raises(CallerError, match="PermitLost"):
        caller.ask("extend", **{"at": "api", "as": "a"})
    assert caller.ask("isLost", **{"as": "b"}) is False


def test_a_wait_is_none_of_a_task(
    valkey: ValkeyServer, caller: Caller, open_store: OpenStore
) -> None:
    """Workers could not revoke it: this is said, and it stays in line."""
    store = open_store(valkey.url)
    caller.open(valkey.url, limit=1)
    holder = caller.acquire()["holder"]
    waits = caller.begin("acquire", **{"at": "api", "as": "b"})
    wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
    for words in (["drop", "api", shown(holder), "--force"], ["promote", "api", shown(holder)]):
        assert "is not a task but a process that waits" in says(valkey, *words, code=1)
    says(valkey, "purge", "api", "--force")
    assert store.snapshot("api").waiting == 1
    caller.release()
    assert waits.result(SOON)["token"]


def test_the_command_line_shows_it(
    valkey: ValkeyServer, caller: Caller, open_store: OpenStore
) -> None:
    caller.open(valkey.url, limit=1)
    holder = caller.acquire()["holder"]
    caller.begin("acquire", **{"at": "api", "as": "b"})
    store = open_store(valkey.url)
    wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
    said = json.loads(says(valkey, "show", "api", "--json"))
    assert (said["limit"], said["occupied"], said["waiting"]) == (1, 1, 1)
    assert [each["task_id"] for each in said["permits"]] == [shown(holder)]
    assert [each["task_id"] for each in said["waiters"]] == [shown(holder)]
    assert str(caller.pid) in shown(holder)


def test_the_admin_shows_it(
    valkey: ValkeyServer, caller: Caller, open_store: OpenStore, client: Login
) -> None:
    caller.open(valkey.url, limit=1)
    holder = caller.acquire()["holder"]
    caller.begin("acquire", **{"at": "api", "as": "b"})
    store = open_store(valkey.url)
    wait_until(lambda: store.snapshot("api").waiting == 1, SOON)
    text = client().get(address("api")).content.decode()
    assert "<strong>1</strong> of <strong>1</strong> in use" in text
    assert "<strong>1</strong> waiting" in text
    assert text.count(f"<code>{shown(holder)}</code>") == 2
