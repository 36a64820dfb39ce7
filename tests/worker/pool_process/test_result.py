"""WAITING: what the result of a waiting task says, if it shall say anything."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery import Celery, states

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.ticket_header import TICKET, sent_back
from celery_semaphore.worker.pool_process.refused_attempt import Refused
from celery_semaphore.worker.pool_process.result import can_track
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer

from ..conftest import Site
from ..requests import delivered, limited

TRACK: dict[str, Any] = {"semaphore_track_waiting": True}
PARK = TRACK | {"semaphore_on_saturated": "park"}
SINCE = 1_700_000_000
OF_X = Ticket("x:1", 9, SINCE * 1_000_000)


@pytest.fixture
def app(tmp_path: Path) -> Celery:
    backend = f"file://{tmp_path}"
    app = Celery("tracks", broker="memory://", backend=backend, set_as_current=False)
    app.conf.update(semaphore_url="memory://", **TRACK)
    return app


def refuse(
    app: Celery,
    monkeypatch: pytest.MonkeyPatch,
    reason: Reason = Reason.SATURATED,
    ticket: Ticket | None = OF_X,
    key: str | None = None,
) -> None:
    refusal = Refusal(Claim("one", key, 1), reason, 1, 1, ticket, 3, 3.0, 0.0)
    monkeypatch.setattr(limiter_of(app).process.store, "acquire", lambda *_: refusal, raising=False)


def sent_away(task: Any, **headers: Any) -> str:
    """The state of a task that was refused."""
    with pytest.raises(Refused):
        delivered(task, "IGNORED", **headers)
    state: str = task.AsyncResult("x").state
    return state


@pytest.mark.parametrize("key", [None, "7", ""])
@pytest.mark.parametrize("how", ["requeue", "park"])
def test_who_waits_says_so(
    app: Celery, monkeypatch: pytest.MonkeyPatch, key: str | None, how: str
) -> None:
    task = limited(app, on_saturated=how)
    refuse(app, monkeypatch, key=key)
    assert sent_away(task) == "WAITING"
    since = datetime.fromtimestamp(SINCE, UTC).isoformat()
    meta = {"semaphore": "one", "position": 3, "since": since}
    assert task.AsyncResult("x").info == meta | ({} if key is None else {"key": key})


def test_nobody_says_so_unless_it_is_set(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    app.conf.semaphore_track_waiting = False
    task = limited(app)
    refuse(app, monkeypatch)
    assert sent_away(task) == "PENDING"
    assert app.backend.get(app.backend.get_key_for_task("x")) is None


@pytest.mark.parametrize("state", sorted(states.READY_STATES))
def test_what_is_ready_stays(app: Celery, monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    """A broker may deliver a task again that has ended."""
    task = limited(app)
    result = ValueError("no") if state in states.EXCEPTION_STATES else 7
    app.backend.store_result("x", result, state)
    refuse(app, monkeypatch)
    assert sent_away(task) == state
    assert str(task.AsyncResult("x").result) == str(result)


def test_nothing_is_stored_for_who_stores_nothing(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = limited(app, ignore_result=True)
    refuse(app, monkeypatch)
    assert sent_away(silent) == "PENDING"
    assert sent_away(silent, ignore_result=False) == "WAITING"


def test_nothing_is_stored_for_a_call_that_stores_nothing(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = limited(app)
    refuse(app, monkeypatch)
    assert sent_away(task, ignore_result=True) == "PENDING"


@pytest.mark.parametrize(
    ("reason", "ticket"),
    [
        (Reason.COPY, None),
        (Reason.RUNNING, OF_X),
        (Reason.RUNNING, None),
        (Reason.RELEASED, None),
    ],
)
def test_another_message_of_the_task_tells(
    app: Celery, monkeypatch: pytest.MonkeyPatch, reason: Reason, ticket: Ticket | None
) -> None:
    task = limited(app)
    refuse(app, monkeypatch, reason, ticket)
    assert sent_away(task) == "PENDING"


def test_the_dropped_never_waited(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(app, monkeypatch, ticket=None)
    assert sent_away(limited(app, on_saturated="drop")) == "REVOKED"


def test_a_wait_that_is_over_says_so(app: Celery) -> None:
    """Or it would be waiting to whoever asks while it runs."""
    task = limited(app, limit=2)
    delivered(task)
    assert task.AsyncResult("x").state == "PENDING", "it did not wait"
    delivered(task, **{"semaphore_holder": "x:2", TICKET: sent_back("x:1", 1, OF_X, 1)})
    assert task.AsyncResult("x").state == "STARTED"


def test_a_backend_that_fails_fails_no_task(
    app: Celery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise OSError("the backend is away")

    task = limited(app)
    refuse(app, monkeypatch)
    monkeypatch.setattr(task.backend, "store_result", fail)
    with caplog.at_level(logging.WARNING):
        assert sent_away(task) == "PENDING"
    assert "WAITING is not stored: OSError('the backend is away')" in caplog.text


@pytest.mark.parametrize("backend", [None, "rpc://"])
def test_backends_that_cannot(
    backend: str | None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app = Celery("tracks", broker="memory://", backend=backend, set_as_current=False)
    app.conf.update(semaphore_url="memory://", **TRACK)
    assert not can_track(app.backend)
    task = limited(app)
    refuse(app, monkeypatch)
    with caplog.at_level(logging.WARNING), pytest.raises(Refused):
        delivered(task, "IGNORED")
    assert caplog.text == "", "the worker said so at its start"


# -- with workers


@pytest.mark.parametrize("conf", [TRACK, PARK], ids=["requeue", "park"])
def test_on_the_way(site: Site, conf: dict[str, Any]) -> None:
    site.start(concurrency=2, conf=conf)
    site.occupy()
    first, second = (site.send("hold", None, "tracked") for _ in range(2))
    wait_until(lambda: {first.state, second.state} == {"WAITING"}, 20, "both wait")
    assert {first.info["position"], second.info["position"]} == {0, 1}
    assert {first.info["semaphore"], second.info["semaphore"]} == {"one"}
    site.let_go()
    wait_until(lambda: "STARTED" in {first.state, second.state}, 20, "one of them runs")
    wait_until(lambda: site.inside("tracked") == 1, 20, "its body began")
    site.let_go("tracked")
    first.get(timeout=20)
    second.get(timeout=20)
    assert {first.state, second.state} == {"SUCCESS"}


def test_waits_that_end_without_a_permit(site: Site) -> None:
    site.start(concurrency=2, conf=TRACK)
    site.occupy()
    impatient, revoked = site.send("impatient", "i"), site.send("hold", 0.0, "never")
    wait_until(lambda: {impatient.state, revoked.state} == {"WAITING"}, 20, "both wait")
    revoked.revoke()
    wait_until(lambda: impatient.state == "FAILURE", 20, "it gave up")
    wait_until(lambda: revoked.state == "REVOKED", 20, "it was revoked")


def test_delivered_again_after_its_end(site: Site) -> None:
    worker = site.start(concurrency=2, conf=TRACK | {"semaphore_keep": False})
    failed = site.send("early", "failure", "ended")
    wait_until(lambda: failed.state == "FAILURE", 20, "it failed")
    site.occupy()
    site.send("early", "failure", "ended", task_id=failed.id)
    wait_until(lambda: f"early[{failed.id}] waits" in worker.log(), 20, "it waits")
    wait_until(lambda: worker.log().count(f"early[{failed.id}] waits") >= 2, 20, "it looks again")
    assert failed.state == "FAILURE"


def test_off_by_default(site: Site, valkey: ValkeyServer) -> None:
    worker = site.start(concurrency=2, conf={"semaphore_keep": False})
    site.occupy()
    waiting = site.send("hold", 0.0, "quiet")
    wait_until(lambda: worker.log().count(f"[{waiting.id}] waits") >= 2, 20, "it looks again")
    with valkey.client(2) as backend:
        assert not backend.exists(f"celery-task-meta-{waiting.id}")


def test_a_worker_warns_where_it_cannot(site: Site) -> None:
    site.backend = "rpc://"
    worker = site.start(concurrency=1, conf=TRACK)
    assert "semaphore_track_waiting does nothing" in worker.log()
