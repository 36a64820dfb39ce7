"""A process with the documented rights can do all that it has to; each of them is needed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any, ClassVar

import boto3
import pytest

from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.stores.documents.documents import Changes, Document, Key
from celery_semaphore.stores.dynamodb import DynamoStore
from tests.conftest import running
from tests.stores.conftest import claim, park, permit_of, refusal_of
from tests.support.dynamodb import REGION, EmulatorServer
from tests.support.process import ROOT

pytestmark = pytest.mark.variants
PAGE = ROOT / "docs/operate/dynamodb.md"


def rights(process: str) -> list[str]:
    """Return the actions of a row of the page."""
    [row] = re.findall(rf"^\| {process}.*\| (.*) \|$", PAGE.read_text("utf-8"), re.MULTILINE)
    return re.findall(r"`(?:dynamodb:)?(\w+)`", row)


OF_A_PROCESS = rights("each process")
TO_INSTALL = rights(".*`semaphore install`")


class GuardedServer(EmulatorServer):
    """An emulator that asks for rights; ``test`` may do all."""

    env: ClassVar[dict[str, str]] = {
        **EmulatorServer.env,
        "AUTH": "true",
        "SERVICES": "dynamodb,iam,sts",
    }


@pytest.fixture(scope="module")
def guarded() -> Iterator[GuardedServer]:
    with running(GuardedServer) as server:
        yield server


@pytest.fixture
def root(guarded: GuardedServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    return boto3.client("iam", endpoint_url=guarded.url, region_name=REGION)


def become(root: Any, table: str, actions: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all new stores be those of a user with these rights alone."""
    name, at = table[-20:], f"arn:aws:dynamodb:{REGION}:*:table/{table}"
    allowed = {
        "Effect": "Allow",
        "Action": [f"dynamodb:{each}" for each in actions],
        "Resource": [at, f"{at}/index/*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    root.create_user(UserName=name)
    root.put_user_policy(UserName=name, PolicyName="permits", PolicyDocument=policy)
    key = root.create_access_key(UserName=name)["AccessKey"]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", key["AccessKeyId"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", key["SecretAccessKey"])


def live(store: DynamoStore) -> None:
    """Make each kind of call."""
    both = claim() + claim(of="disk")
    permit = permit_of(store.acquire(both, "a"))
    store.renew([permit])
    park(store, "b")
    store.ask("s")
    refusal_of(store.acquire(claim(), "c", Wait(Kind.REQUEUE, session="s")))
    store.pause("api")
    store.resume("api")
    store.set_limit(1, "api")
    store.reap()
    store.end(["b"])
    store.consume("w", ["celery"])
    store.brokers("here")
    assert "api" in [*store.resources()]
    store.sent(store.take(store.release("a", both).outgoing))
    store.release("c", claim())
    lose_many_waits(store)
    store.durability(9)
    store.about()
    store.sleep("s")


def lose_many_waits(store: DynamoStore) -> None:
    """Change more than a transaction has, as a line does of which all waits are overdue."""
    line, hints = Key("r", "line"), [Key("w", "t", str(n)) for n in range(120)]
    for some in ([line, *hints[:60]], hints[60:]):
        assert store._dynamo.begin(some).commit({key: Document(b"{}") for key in some}, {})
    both = [line, *hints]
    gone: Changes = {line: Document(b"{}"), **dict.fromkeys(hints)}
    assert store._dynamo.begin(both).commit(gone, {})


def check_and_live(store: DynamoStore) -> None:
    store.check()
    live(store)


def test_the_page_names_them() -> None:
    assert len(OF_A_PROCESS) > 7
    assert TO_INSTALL == ["CreateTable", "UpdateTimeToLive"]


def test_a_process_has_what_it_needs(
    guarded: GuardedServer, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = guarded.new_table()
    become(root, table, OF_A_PROCESS, monkeypatch)
    with closing(guarded.store(table)) as store:
        store.check()
        live(store)


def test_it_can_install_with_two_more(
    guarded: GuardedServer, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(guarded.store()) as mine:
        table = mine._link.place.table
    become(root, table, OF_A_PROCESS + TO_INSTALL, monkeypatch)
    with closing(guarded.store(table)) as store:
        assert store.install() == [1]
        assert store.check() == []


@pytest.mark.parametrize("missing", OF_A_PROCESS)
def test_each_is_needed(
    guarded: GuardedServer, root: Any, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    table = guarded.new_table()
    actions = [each for each in OF_A_PROCESS if each != missing]
    become(root, table, actions, monkeypatch)
    with closing(guarded.store(table)) as store:
        if missing == "DescribeTimeToLive":
            assert store.check() == []
            return
        with pytest.raises(Exception, match=missing):
            check_and_live(store)


def test_a_key_that_aws_does_not_know_ends_a_worker_that_starts(
    guarded: GuardedServer, root: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = guarded.new_table()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    with (
        closing(guarded.store(table)) as store,
        pytest.raises(ConfigurationError, match="semaphore_url"),
    ):
        store.check()
