"""Which of a task's messages it was, and whether its task ran: at the gate, and at the end."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.app.trace import build_tracer
from celery.worker.request import create_request_cls
from kombu.utils.imports import symbol_by_name

from celery_semaphore.core.claim import Claim
from celery_semaphore.core.message_id import MessageId
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.task.signals import task_saturated
from celery_semaphore.worker.keeping.kept_message import CannotKeep
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import HOLDER, SESSION
from celery_semaphore.worker.messages.ticket_header import TICKET
from celery_semaphore.worker.pool_process import postrun
from celery_semaphore.worker.pool_process.destination import Destination, Unasked
from celery_semaphore.worker.pool_process.refused_attempt import Refused, RefusedAttempt
from tests.support.process import wait_until

from ..requests import SENT, delivered, limited, request_of

ONE = Claim("one", None, 1)


@pytest.fixture
def app() -> Celery:
    app = Celery("waits", broker="memory://", backend="cache+memory://", set_as_current=False)
    app.conf.semaphore_url = "memory://"
    return app


# -- which message it was, and whether its task ran


def runs_again(task: Any) -> bool:
    """Whether the message that comes again, after another one was admitted, runs."""
    process = limiter_of(task.app).process
    process.releaser.start()
    wait_until(lambda: process.store.snapshot("one").occupied == 0, 10, "it is released")
    again = MessageId("x:0:0", redelivered=True)
    answer = process.store.acquire([ONE], "x:2", None, again)
    assert isinstance(answer, Permit) or answer.reason is Reason.COPY
    process.releaser.close(5)
    return isinstance(answer, Permit)


@pytest.mark.parametrize(("ends", "again"), [("SUCCESS", False), ("REJECTED", True)])
def test_what_was_rejected_may_run_again(app: Celery, ends: str, again: bool) -> None:
    task = limited(app)
    delivered(task, ends, **{TICKET: SENT})
    assert runs_again(task) is again


def test_what_a_signal_cut_off_may_run_again(app: Celery) -> None:
    """A pool process that is told to end unwinds by a SystemExit, and Celery then tells no state."""

    def told_to_end() -> None:
        raise SystemExit

    task = limited(app, told_to_end)
    limiter_of(app).serve(None)
    postrun.watch_ends()  # as a worker does at its start
    request = {HOLDER: "x:1", "id": "x", TICKET: SENT}
    with pytest.raises(SystemExit):
        build_tracer(task.name, task, app=app)("x", (), {}, request)
    assert runs_again(task)


def test_an_unanswered_acquire_has_not_run(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store said yes to nobody: the task's message goes back, and must not be taken for a copy."""
    task = limited(app)
    store = limiter_of(app).process.store
    acquire = store.acquire

    def unanswered(*args: Any) -> Any:
        acquire(*args)
        raise StoreUnavailable("hung")

    with monkeypatch.context() as patch:
        patch.setattr(store, "acquire", unanswered, raising=False)
        with pytest.raises(Refused):
            delivered(task, "IGNORED", **{TICKET: SENT})
    assert runs_again(task)


@pytest.mark.parametrize(
    ("session", "saturated", "hung"),
    [
        ("", Destination.PUBLISHED, Destination.PUBLISHED),
        ("one", Destination.IN_LINE, Destination.KEPT),
    ],
)
def test_only_a_message_with_a_session_is_kept(
    app: Celery,
    monkeypatch: pytest.MonkeyPatch,
    session: str,
    saturated: Destination,
    hung: Destination,
) -> None:
    """The main process gives no session to those that it cannot keep: it asked once, before the acquire."""
    task, store = limited(app), limiter_of(app).process.store
    assert isinstance(store.acquire([ONE], "other"), Permit)

    def went() -> Destination:
        with pytest.raises(Refused) as refused:
            delivered(task, "IGNORED", **{SESSION: session})
        (attempt,) = refused.value.args
        return attempt.destination

    assert went() is saturated

    def hangs(*_: Any) -> Any:
        raise StoreUnavailable("hung")

    monkeypatch.setattr(store, "acquire", hangs, raising=False)
    assert went() is hung


@pytest.fixture
def releases(app: Celery, monkeypatch: pytest.MonkeyPatch) -> list[MessageId | None]:
    """With which messages the main process releases."""
    found: list[MessageId | None] = []

    def release(_: str, __: Any, message_id: MessageId | None = None) -> None:
        found.append(message_id)

    monkeypatch.setattr(limiter_of(app).process.releaser, "release", release)
    return found


def test_the_end_of_a_request_names_its_message(
    app: Celery, releases: list[MessageId | None]
) -> None:
    request = request_of(limited(app), **{TICKET: SENT})
    request._ended(reported=True)
    assert [found and found.number for found in releases] == ["0.1"]


def test_a_success_is_an_end(app: Celery, releases: list[MessageId | None]) -> None:
    """Its process could perhaps not reach the store."""
    task = limited(app)
    pool = SimpleNamespace(apply_async=None)
    base = symbol_by_name(task.Request)
    cls = create_request_cls(base, task, pool, "here", None, trace=print, app=app)
    request = request_of(task, cls=cls, **{TICKET: SENT})
    request.on_success((0, "done", 0.1))
    assert [found and found.number for found in releases] == ["0.1"]


def test_a_request_that_was_returned_has_not_ended(
    app: Celery, releases: list[MessageId | None]
) -> None:
    request = request_of(limited(app), **{TICKET: SENT})
    request.reject(requeue=True)
    request._ended(reported=True)
    assert releases == [None]


def test_a_request_whose_acquire_was_not_answered_has_not_ended(
    app: Celery, releases: list[MessageId | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(limited(app), **{TICKET: SENT})
    monkeypatch.setattr(limiter_of(app).mover, "put_back", lambda *_: None)
    attempt = RefusedAttempt(
        reason="hung",
        why=Unasked.UNREACHABLE,
        destination=Destination.KEPT,
        delay=1.0,
        answer_known=False,
    )
    request.on_refused(attempt)
    assert releases == [None]


# The error of a task that failed travels, and no refusal.
@pytest.mark.parametrize("moved", sorted({*Destination} - {Destination.FAILED}))
def test_the_main_process_does_what_was_decided(
    app: Celery, moved: Destination, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else overrules it; what cannot be kept any more is published."""
    limiter, request = limiter_of(app), request_of(limited(app), **{TICKET: SENT})
    did = list[str]()
    monkeypatch.setattr(limiter.mover, "put_back", lambda *_: did.append("published"))
    monkeypatch.setattr(limiter.mover, "park", lambda *_, **__: did.append("parked"))
    monkeypatch.setattr(request, "acknowledge", lambda: did.append("acknowledged"))
    limiter.worker.kept = SimpleNamespace(keep=lambda kept: did.append(f"wait: {bool(kept.wait)}"))  # type: ignore[assignment]
    attempt = RefusedAttempt(
        reason="full",
        why=Reason.SATURATED,
        destination=moved,
        delay=1.0,
        ticket=Ticket("x:1", 9, 1_000_000),
        claims=(ONE,),
    )
    request.on_refused(attempt)
    assert (
        did
        == {
            Destination.PARKED: ["parked"],
            Destination.IN_LINE: ["wait: True"],
            Destination.KEPT: ["wait: False"],
            Destination.PUBLISHED: ["published"],
            Destination.DROPPED: ["acknowledged"],
        }[moved]
    )


@pytest.mark.parametrize("why", ["no connection", "given back"])
def test_what_cannot_be_kept_any_more_is_published(
    app: Celery, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    limiter, request = limiter_of(app), request_of(limited(app))
    did = list[float]()
    monkeypatch.setattr(limiter.mover, "put_back", lambda *call: did.append(call[2]))

    def keep(_: Any) -> None:
        raise CannotKeep

    limiter.worker.kept = SimpleNamespace(keep=keep) if why == "given back" else None  # type: ignore[assignment]
    attempt = RefusedAttempt(
        reason="why", why=Reason.SATURATED, destination=Destination.KEPT, delay=3.0
    )
    request.on_refused(attempt)
    assert did == [3.0]


@pytest.mark.parametrize("why", ["it may not now", "too large", "unanswered"])
def test_what_cannot_be_parked_is_published_once(
    app: Celery, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never parked again: an answer that was not heard may have left it in the store."""
    limiter, request = limiter_of(app), request_of(limited(app))
    did, said = list[object](), list[str]()
    monkeypatch.setattr(limiter.mover, "put_back", lambda _, *rest: did.append(rest))
    limiter.worker.parking = SimpleNamespace(  # type: ignore[assignment]
        parks=lambda *_: why != "it may not now", failed=lambda _, error: said.append(str(error))
    )
    object.__setattr__(limiter.mover._settings, "park_max_size", 10 if why == "too large" else 1000)

    def attach(*_: Any, **__: Any) -> Any:
        if why != "unanswered":
            raise AssertionError(why)
        raise StoreUnavailable("hung")

    monkeypatch.setattr(limiter.process.store, "attach", attach)
    ticket = Ticket("x:1", 9, 1_000_000)
    limiter.mover.park(request, ticket, [ONE], delay=3.0, ends_in=None)
    limiter.mover.flush(5)
    limiter.mover.close(5)
    assert did == [(ticket, 3.0)]
    assert len(said) == (why != "it may not now")


# -- refusals of those who wait


def refusals(app: Celery, monkeypatch: pytest.MonkeyPatch, reason: Reason) -> list[RefusedAttempt]:
    """How a task that would be dropped is sent away because of another of its messages."""
    task = limited(app, on_saturated="drop")
    refusal = Refusal(ONE, reason, 1, 1, None, 0, 3.0, 0.0)
    store = limiter_of(app).process.store
    monkeypatch.setattr(store, "acquire", lambda *_: refusal, raising=False)
    saturated: list[Any] = []
    task_saturated.connect(lambda **_: saturated.append(1), weak=False, dispatch_uid="saturated")
    try:
        with pytest.raises(Refused) as found:
            delivered(task, "IGNORED")
    finally:
        task_saturated.disconnect(dispatch_uid="saturated")
    assert saturated == []
    assert app.AsyncResult("x").state == "PENDING", "the other one says how it ended"
    return [found.value.attempt]


def test_a_copy_is_acknowledged_and_nothing_else(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    (refused,) = refusals(app, monkeypatch, Reason.COPY)
    assert (refused.destination, refused.answer_known) == (Destination.DROPPED, True)


def test_who_waits_for_its_other_message_comes_again(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    (refused,) = refusals(app, monkeypatch, Reason.RUNNING)
    assert (refused.destination, refused.delay) == (Destination.PUBLISHED, 3.0)


def test_who_parks_says_so_and_for_how_long(app: Celery) -> None:
    task = limited(app, on_saturated="park", wait_timeout=10)
    limiter_of(app).process.store.acquire([ONE], "other")
    with pytest.raises(Refused) as found:
        delivered(task, "IGNORED")
    refused: RefusedAttempt = pickle.loads(pickle.dumps(found.value)).attempt  # noqa: S301 - as it travels
    assert refused.destination is Destination.PARKED
    assert refused.claims == (ONE,)
    assert refused.ticket
    assert refused.left is not None
    assert 9 < refused.left <= 10


@pytest.mark.parametrize(("left", "expires", "ends"), [(None, 60, 60), (5.0, 60, 5), (60.0, 5, 5)])
def test_a_parked_wait_ends_when_it_expires(
    app: Celery, left: float | None, expires: float, ends: float
) -> None:
    when = datetime.now(UTC) + timedelta(seconds=expires)
    request = request_of(limited(app), expires=when.isoformat())
    assert ends - 2 < request._ends_in(left) < ends + 1


# -- the queue beside


def test_a_retry_goes_to_its_own_queue(app: Celery) -> None:
    limiter_of(app).worker.homes = frozenset({"celery"})
    request = request_of(limited(app), "celery.granted")
    assert request.delivery_info["routing_key"] == "celery"


def test_who_waits_again_goes_to_its_own_queue(app: Celery) -> None:
    limiter_of(app).worker.homes = frozenset({"celery"})
    task = limited(app)
    assert request_of(task, "celery.granted").came_from() == "celery"
    assert request_of(task, "other.granted").came_from() == "other.granted", "it is the user's"


def test_who_is_granted_comes_by_a_queue_that_is_consumed(app: Celery) -> None:
    limiter = limiter_of(app)
    assert limiter.comes_back_to("celery") == "celery"
    limiter.worker.homes = frozenset({"celery"})
    assert limiter.comes_back_to("celery") == "celery.granted"
    assert limiter.comes_back_to("other") == "other"
