"""Each command of ``celery -A app semaphore`` that prints can print JSON, and nothing else on its output."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import click
import pytest

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.store import Store
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.ops.cli import semaphore as group
from tests.worker.conftest import Site

from .conftest import Command

ONE = Claim("one", None, 1)
PRINTS_NO_VIEW = {"metrics"}  # it serves
NO_WORKER = ("--timeout", "0.1")


@pytest.fixture
def store(site: Site) -> Iterator[Store]:
    with closing(site.store()) as store:
        store.set_lease(600.0)  # no worker renews
        assert isinstance(store.acquire([ONE], "runs:1"), Permit)
        for task_id in ("first", "second"):
            answer = store.acquire([ONE], f"{task_id}:1", Wait(Kind.PARK))
            assert not isinstance(answer, Permit)
            assert answer.ticket
            store.attach(answer.ticket, [ONE], b"", name=task_id)
        yield store


def test_each_command_has_the_option() -> None:
    commands = {
        name: {each for option in command.params for each in option.opts}
        for name, command in group.commands.items()
    }
    assert {name for name, options in commands.items() if "--json" not in options} == PRINTS_NO_VIEW


def test_what_is_decided(semaphore: Command, store: Store) -> None:
    seen = semaphore.json("limit", "one", "2")
    assert (seen["limit"], seen["set_by_operator"], seen["changed"]) == (2, True, True)
    seen = semaphore.json("pause", "one", "--for", "10m")
    assert (seen["paused"], seen["changed"]) == (True, True)
    assert 590 < seen["pause_left"] <= 600
    semaphore.json("limit", "one", "3", "--key", "7")
    semaphore.json("pause", "one", "--key", "7")
    seen = semaphore.json("resume", "one")
    assert (seen["paused"], seen["changed"]) == (False, True)
    assert (seen["own_limits"], seen["paused_keys"]) == ({"7": 3}, ["7"])
    assert semaphore.json("resume", "one")["changed"] is False
    seen = semaphore.json("limit", "one", "--clear")
    assert (seen["limit"], seen["changed"]) == (1, True)
    assert semaphore.json("limit", "one", "--clear")["changed"] is False


def test_what_is_done_with_waits_and_permits(semaphore: Command, store: Store) -> None:
    (waiter,) = semaphore.json("promote", "one", "second")
    assert (waiter["task_id"], waiter["where"]) == ("second", "parked")
    asked = semaphore("take-away", "one", "runs", "--json", typed="y\n")
    assert "Take it away?" in asked.err
    permit = json.loads(asked.out)
    assert (permit["task_id"], permit["holder"]) == ("runs", "runs:1")
    refused = semaphore("drop", "one", "first", "--force", "--json", *NO_WORKER)
    assert (refused.code, refused.out) == (1, "")
    assert "no worker answered" in refused.err
    none = {"ended": [], "revoked": [], "unheard": 0, "calls": 0}
    assert semaphore.json("purge", "one", "--key", "7", "--force") == none


def test_why_a_task_waits(semaphore: Command, store: Store) -> None:
    seen = semaphore.json("why", "second", *NO_WORKER)
    assert (seen["task_id"], seen["state"], seen["permits"]) == ("second", "waits", [])
    (wait,) = seen["waits"]
    (waiter,) = wait["at"]["waiters"]
    assert (wait["at"]["semaphore"], waiter["position"], waiter["where"]) == ("one", 1, "parked")
    assert [permit["task_id"] for permit in wait["at"]["permits"]] == ["runs"]
    text = semaphore.says("why", "second", *NO_WORKER)
    assert text.startswith(
        "second waits for one.\n1 is ahead of it in line, and it has waited for "
    )
    assert "\nPERMIT OF" in text
    (held,) = semaphore.json("why", "runs", *NO_WORKER)["permits"]
    assert (held["semaphore"], held["permit"]["holder"]) == ("one", "runs:1")
    unknown = semaphore("why", "third", "--json", *NO_WORKER)
    assert (unknown.code, json.loads(unknown.out)["state"]) == (3, "unknown")


def test_the_lease_and_the_schema(semaphore: Command, site: Site) -> None:
    assert semaphore.json("lease", "40s")["lease"] == 40.0
    assert semaphore.json("lease", "50") == {
        "lease": 50.0,
        "before": 40.0,
        "own_lease": site.lease,
    }
    assert semaphore.json("install") == {"installed": None}
    assert semaphore.json("upgrade") == {"installed": None, "processes": {}}
    assert semaphore("upgrade", "--sql", "--json").code == click.UsageError.exit_code
