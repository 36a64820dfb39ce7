"""The header that a waiting task's message carries, as others may have written it."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from celery import Celery

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.ticket import DEFAULT_PRIORITY, Ticket
from celery_semaphore.worker.messages.headers import Headers
from celery_semaphore.worker.messages.ticket_header import TICKET, grant_of, sent_back

from ..conftest import Site
from ..requests import limited, request_of

TICKET_ID = "246.1795325987266815.{}"
ODD = "tenant 7:\n\0é"  # an id that its sender chose


@pytest.fixture
def app() -> Celery:
    app = Celery("headers", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    return app


def carried(app: Celery, header: Any, task_id: str = "x") -> tuple[str, Ticket | None]:
    """The message and the ticket that the gate reads of a delivery.

    The refusals are what the main process reads, too.
    """
    task = limited(app)
    request = request_of(task, **{TICKET: header, "id": task_id})
    task.push_request(**request._request_dict, called_directly=False)
    try:
        headers = Headers.taken_from(task.request, 60.0)
    finally:
        task.pop_request()
    assert headers.message_id.number == request._message_id.number
    assert headers.refusals == request.refusals == (2 if headers.ticket else 0)
    return headers.message_id.number, headers.ticket


@pytest.mark.parametrize("task_id", ["x", ODD])
@pytest.mark.parametrize("keys", [[None], ["", "a b", "é" * 500]])
def test_the_grant_of_a_message(app: Celery, task_id: str, keys: list[str | None]) -> None:
    """A worker that discards the message can give it back, whatever the keys are."""
    holder = f"{task_id}:0123456789abcdef"
    ticket = Ticket(holder, 9, 1795325987266815)
    claims = [Claim("one", key, 3, 2) for key in keys]
    header = sent_back(holder, 3, ticket, 2, granted=claims)
    assert carried(app, header, task_id) == ("0123456789abcdef.3", ticket)
    grant = grant_of(header, task_id)
    assert grant is not None
    assert grant[0] == ticket
    assert [each.resource for each in grant[1]] == [each.resource for each in claims]
    assert grant_of(header, "another") is None
    assert grant_of(sent_back(holder, 3, ticket, 2), task_id) is None


@pytest.mark.parametrize("task_id", ["x", ODD])
@pytest.mark.parametrize("has_ticket", [True, False])
def test_what_a_worker_wrote(
    app: Celery, caplog: pytest.LogCaptureFixture, task_id: str, *, has_ticket: bool
) -> None:
    holder = f"{task_id}:0123456789abcdef"
    ticket = Ticket(holder, 9, 1795325987266815) if has_ticket else None
    header = sent_back(holder, 3, ticket, 2 if ticket else 0)
    assert carried(app, header, task_id) == ("0123456789abcdef.3", ticket)
    assert not caplog.records


@pytest.mark.parametrize(
    "header",
    [
        "1 a\tb 0  ",
        "1 a\x1b.1 0  " + TICKET_ID.format("x:0"),
        "1 a.1 0  " + TICKET_ID.format("y:0"),  # of another task, whose sender copied all headers
        "1 a.1 0  " + TICKET_ID.format("x:\n"),
        "1 a.1 0  " + "999" + TICKET_ID.format("x:0")[3:],
        "1 a.1 0  " + TICKET_ID.format("x:") + "0" * 1_000_000,
        "1 a.1 0  no ticket",
        "1 a.1 0 one ",  # a grant of no wait
        "1 a.1 0 o%6Ee " + TICKET_ID.format("x:0"),  # not how a resource is named
        "1 a.1 0 one,,two " + TICKET_ID.format("x:0"),
        "1 a.1 0 a,b,c,d,e,f,g,h,i " + TICKET_ID.format("x:0"),  # more than a task has
        "1 a.1 0 one " + TICKET_ID.format("y:0"),
        "1 a.1 " + TICKET_ID.format("x:0"),
        "1 a.1 x  " + TICKET_ID.format("x:0"),
        "1 a.1 -1  " + TICKET_ID.format("x:0"),
        "1 a.1 1234567890  " + TICKET_ID.format("x:0"),
        "a.1 0  ",
        "1 a.1",
        "1 a.1 ",
        "1 a.1 0",
        "1 a.1 0 ",
        "1  0  ",
        "0 a.1 0  ",
        "-1 a.1 0  ",
        "x a.1 0  ",
        "1000 a.1 0  ",
        "a" * 1_000_000,
        "2 " + "a" * 65 + " ",
        7,
        {"a": 1},
        ["a.1"],
    ],
)
def test_what_no_worker_wrote(app: Celery, caplog: pytest.LogCaptureFixture, header: Any) -> None:
    """The task waits as one that comes for the first time; it is not lost, and holds up no other."""
    with caplog.at_level(logging.WARNING):
        assert carried(app, header) == ("", None)
    (record,) = caplog.records
    assert "semaphore_ticket" in record.getMessage()
    assert len(record.getMessage()) < 300


def test_a_task_whose_id_is_too_long_fails_alone(site: Site) -> None:
    """The store refuses it, which is no outage: the others do not wait."""
    site.start(concurrency=2)
    poison = site.send("call", 0.0, "api", task_id="x" * 3000)
    forged = site.send("call", 0.0, "api", headers={TICKET: "1 a\t.1 " + "0" * 1_000_000})
    others = [site.send("call", 0.0, "api") for _ in range(5)]
    assert [each.get(timeout=20) is not None or True for each in (forged, *others)]
    with pytest.raises(Exception, match="takes 3017 bytes") as caught:
        poison.get(timeout=20)
    assert type(caught.value).__name__ == "SemaphoreError"
    log = site.workers[0].log()
    assert "cannot be asked" not in log
    assert log.count("semaphore_ticket") == 1


@pytest.mark.parametrize(
    ("low_is_urgent", "default", "given", "priority"),
    [
        (True, 0, None, DEFAULT_PRIORITY),
        (True, 0, 0, DEFAULT_PRIORITY),
        (True, 0, -3, DEFAULT_PRIORITY),
        (True, 0, 3, DEFAULT_PRIORITY - 3),
        (True, 0, 9, 0),
        (True, 0, 200, 0),
        (True, 5, None, DEFAULT_PRIORITY),
        (True, 5, 5, DEFAULT_PRIORITY),
        (True, 5, 0, DEFAULT_PRIORITY + 5),
        (False, 0, None, DEFAULT_PRIORITY),
        (False, 0, 0, DEFAULT_PRIORITY),
        (False, 0, 3, DEFAULT_PRIORITY + 3),
        (False, 0, 255, 255),
        (False, 5, None, DEFAULT_PRIORITY),
        (False, 5, 5, DEFAULT_PRIORITY),
        (False, 5, 9, DEFAULT_PRIORITY + 4),
        (False, 20, 0, 0),
    ],
)
def test_a_priority_counts_from_that_of_a_message_without_one(
    app: Celery, low_is_urgent: bool, default: int, given: int | None, priority: int
) -> None:
    task = limited(app)
    task.push_request(id="x", delivery_info={"priority": given}, called_directly=False)
    try:
        headers = Headers.taken_from(task.request, 60.0)
    finally:
        task.pop_request()
    assert headers.priority(low_is_urgent=low_is_urgent, default=default) == priority
