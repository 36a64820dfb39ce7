"""The waits of a task are found by the primary key: few pages, and none of another task."""

from __future__ import annotations

from typing import Any

import pytest

from celery_semaphore.testing.clock import Clock
from tests.conformance.acquisition import admitted, claim, requeued
from tests.conformance.suite import LEASE, TAKE_UP
from tests.support.postgres import PostgresServer

from .conftest import OpenAt
from .test_sessions import LINE, MANY, S, pages

ALIKE = """
SELECT min(n), max(n) FROM (
    SELECT n, celery_semaphore.v1_first_id('t' || n) AS id FROM generate_series(1, 3000) AS n
) AS tasks GROUP BY id HAVING count(*) > 1 LIMIT 1
"""


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(server: PostgresServer, open_at: OpenAt, clock: Clock) -> Any:
    return open_at(server.url, now=clock, lease=LEASE, take_up=TAKE_UP)


def test_those_of_others_are_not_read(server: PostgresServer, store: Any, clock: Clock) -> None:
    admitted(store, claim(of="disk"), "a:1")
    requeued(store, claim(of="disk"), "t:1")
    line = (LINE % (S, MANY)).replace("'n' || n", "'n' || n || ':1'")
    server.run(line.replace("'{1}', ''", "'{1}', '[]'"))
    assert len(store.waits_of("n7")) == 1
    assert pages(server, clock, "v1_waits_of({call}, 't', 100)") < 100


def test_a_task_with_the_same_digest_is_another(server: PostgresServer, store: Any) -> None:
    ((one, other),) = server.run(ALIKE)
    assert one != other
    admitted(store, claim(), "a:1")
    for n in (one, other):
        requeued(store, claim(), f"t{n}:1")
    for n in (one, other):
        (found,) = store.waits_of(f"t{n}")
        assert found.waiter.ticket.nonce == f"t{n}:1"


@pytest.mark.parametrize(
    ("nonce", "task"),
    [("a:1", "a"), ("a:b:1", "a:b"), ("a", ""), ("a:", "a"), (":1", ""), ("", "")],
)
def test_the_task_of_a_nonce(server: PostgresServer, nonce: str, task: str) -> None:
    assert server.run(f"SELECT celery_semaphore.v1_task_of('{nonce}')") == [(task,)]
