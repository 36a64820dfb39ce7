"""LineAsker: which messages join a line, and what becomes of each answer of the store."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.app.task import Context
from celery.worker import state
from kombu.utils.imports import symbol_by_name

from celery_semaphore import task_saturated
from celery_semaphore.core import wait_policy
from celery_semaphore.core.claim import Claim, OtherClaims
from celery_semaphore.core.events import PermitAcquiredEvent
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Reason, Refusal
from celery_semaphore.core.store import CALLED
from celery_semaphore.core.ticket import Ticket
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.task.call_options import KEY, WEIGHT
from celery_semaphore.worker.limiter import Limiter, limiter_of
from celery_semaphore.worker.main_process import line_asker
from celery_semaphore.worker.main_process.line_asker import LineAsker
from celery_semaphore.worker.messages.header_names import FANOUT, PARKS, SESSION
from celery_semaphore.worker.permits.note import NotePipe
from celery_semaphore.worker.pool_process.destination import Destination
from celery_semaphore.worker.pool_process.gate import acquire_permit
from celery_semaphore.worker.pool_process.refused_attempt import Refused, RefusedAttempt
from tests.support.process import wait_until
from tests.worker.requests import ONE, limited, message_of

HELD = "other:1"


class Pool:
    """As much of Celery's consumer as stands before the pool, and what the pool was given."""

    def __init__(self, app: Celery) -> None:
        self.given: list[Any] = []
        self.on_task_request: Callable[[Any], object] = self.given.append
        self.waiting = deque[Any]()
        self.controller = SimpleNamespace(semaphore=SimpleNamespace(_waiting=self.waiting))
        self.limiter = limiter_of(app)
        self.limiter.notes = NotePipe()
        self.store = self.limiter.process.store
        self.published: list[tuple[str, Ticket | None]] = []
        self.limiter.mover.put_back = self._put_back  # type: ignore[assignment, method-assign]
        self.asker = LineAsker(self, self.limiter)

    def _put_back(self, request: Any, ticket: Ticket | None, _delay: float) -> None:
        self.published.append((request.id, ticket))

    def receive(self, *requests: Any) -> None:
        for request in requests:
            state.task_reserved(request)
            self.on_task_request(request)

    def turn(self, until: Callable[[], object], what: str) -> None:
        """Let the loop turn until it has happened."""

        def turned() -> object:
            self.limiter.on_wake()
            return until()

        wait_until(turned, 10, what)


@pytest.fixture
def pool(app: Celery, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """One whose worker knows that tasks wait for ``one``."""
    pool = Pool(app)
    # Time stands still for it: on a busy machine a test may take longer than a line is known.
    monkeypatch.setattr(pool.limiter.worker.lines, "_now", lambda: 0.0)
    pool.limiter.worker.lines.refused("one", [ONE], 1.0)
    yield pool
    pool.asker.close(5)
    pool.limiter.close(5, flush=1)
    assert pool.limiter.notes is not None
    pool.limiter.notes.close()
    state.reset_state()


def received(task: Any, name: str = "x", args: tuple[Any, ...] = (), **changes: Any) -> Any:
    message = message_of(task)
    message.headers["id"] = message.properties["correlation_id"] = name
    message.headers |= changes.pop("headers", {})
    message.delivery_info |= changes.pop("delivery_info", {})
    message.properties |= changes.pop("properties", {})
    vars(message).update(changes)
    message.payload = (args, {}, {})
    message.body = json.dumps(message.payload).encode()
    message.ack_log_error = message.reject_log_error = lambda *_, **__: None
    return symbol_by_name(task.Request)(message, app=task.app, task=task)


def hold(limiter: Limiter, claim: Claim = ONE) -> None:
    assert isinstance(limiter.process.store.acquire([claim], HELD), Permit)


def test_a_message_joins_the_line_without_a_process(app: Celery, pool: Pool) -> None:
    hold(pool.limiter)
    task = limited(app)
    pool.receive(*(received(task, name) for name in "abc"))
    pool.turn(lambda: len(pool.published) == 3, "all three were refused")
    assert [name for name, ticket in pool.published if ticket] == ["a", "b", "c"]
    assert pool.store.snapshot("one").waiting == 3
    assert not pool.given
    assert not pool.limiter.process.ledger._deliveries
    assert not [*state.reserved_requests]


def test_each_refusal_keeps_the_line_known(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(pool.limiter)
    noted = list[Any]()
    monkeypatch.setattr(pool.limiter.worker.lines, "refused", lambda *args: noted.append(args))
    pool.receive(received(limited(app)))
    pool.turn(lambda: noted, "the line is known for longer")
    assert noted[0][0] == "one"


def test_nothing_changes_where_no_task_waits(app: Celery, pool: Pool) -> None:
    pool.limiter.worker.lines.forget([ONE])
    request = received(limited(app))
    pool.receive(request)
    assert pool.given == [request]


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        pytest.param({"key": lambda: "k"}, {}, id="key"),
        pytest.param({"limit": lambda: 1}, {}, id="limit"),
        pytest.param({"weight": lambda: 1}, {}, id="weight"),
        pytest.param({"on_saturated": "drop"}, {}, id="drop"),
        pytest.param({"on_saturated": "fail"}, {}, id="fail"),
        pytest.param({"key": "{tenant}"}, {"content_type": "application/x-python"}, id="pickle"),
        pytest.param({"key": "{absent.name}"}, {}, id="no key"),
        pytest.param({}, {"delivery_info": {"redelivered": True}}, id="redelivered"),
        pytest.param({}, {"headers": {"semaphore_kye": "k"}}, id="misspelt"),
    ],
)
def test_a_process_tries_whatever_may_be_more_than_a_place(
    app: Celery, pool: Pool, options: dict[str, Any], changes: dict[str, Any]
) -> None:
    """A function of the user's, above all, never runs in the worker's main process."""
    for key in ("k", "x"):
        pool.limiter.worker.lines.refused("one", [Claim("one", key, 1)], 1.0)
    request = received(limited(app, body, **options), args=("x", "y"), **changes)
    pool.receive(request)
    assert pool.given == [request]


def body(tenant: str = "", absent: Any = None) -> None: ...


@pytest.mark.parametrize("headers", [{}, {KEY: "x"}], ids=["template", "of the call"])
def test_a_key_is_made_as_in_a_process(app: Celery, pool: Pool, headers: dict[str, Any]) -> None:
    claim = Claim("one", "x", 1)
    hold(pool.limiter, claim)
    pool.limiter.worker.lines.refused("one", [claim], 1.0)
    task = limited(app, body, key="{tenant}")
    other = received(task, "b", args=("other",))
    pool.receive(received(task, "a", args=("other" if headers else "x",), headers=headers), other)
    pool.turn(lambda: pool.published, "the first one was refused")
    assert pool.given == [other]
    assert pool.store.snapshot(claim.resource).waiting == 1


def test_those_that_wait_for_a_process_join_before_it(app: Celery, pool: Pool) -> None:
    """They came earlier. What wants another permit, or none, stays where it is."""
    claim = Claim("one", "x", 1)
    hold(pool.limiter, claim)
    pool.limiter.worker.lines.refused("one", [claim], 1.0)
    task = limited(app, body, key="{tenant}")
    others = [object(), received(task, "other", args=("a",))]
    first = received(task, "first", args=("x",))
    pool.waiting.extend((None, (request,)) for request in (others[0], first, others[1]))
    pool.receive(received(task, "second", args=("x",)))
    pool.turn(lambda: len(pool.published) == 2, "both were refused")
    assert [name for name, _ in pool.published] == ["first", "second"]
    assert [entry[1][0] for entry in pool.waiting] == others


@pytest.mark.parametrize("ends", ["refused", "with its permit", "never"])
def test_what_a_process_tries_comes_first(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch, ends: str
) -> None:
    """The thread waits for it; but not for ever, and not while its body runs."""
    monkeypatch.setattr(line_asker, "TRIED_S", 0.3 if ends == "never" else 60.0)
    hold(pool.limiter)
    task = limited(app)
    pool.limiter.worker.lines.forget([ONE])
    tried, ledger = received(task, "a"), pool.limiter.process.ledger
    pool.receive(tried)
    assert pool.given == [tried]
    pool.limiter.worker.lines.refused("one", [ONE], 1.0)
    began = time.monotonic()
    pool.receive(received(task, "b"))
    wait_until(lambda: not pool.asker._new_waits, 10, "the thread has it")
    assert not pool.store.snapshot("one").waiting
    if ends == "refused":
        state.task_ready(tried)
    elif ends == "with its permit":
        permit = Permit(tried.holder, 1, (ONE,), 0.0, 0.0, 1)
        ledger.asked(tried.holder, [ONE])
        ledger.held(PermitAcquiredEvent(permit, "limited", 0.0, 0.0), began)
    pool.turn(lambda: pool.published, "the later one was refused")
    if ends == "never":
        assert time.monotonic() - began >= line_asker.TRIED_S


def test_a_batch_waits_for_none_of_its_own(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_asker, "TRIED_S", 60.0)
    hold(pool.limiter)
    task = limited(app)
    pool.limiter.worker.lines.forget([ONE])
    pool.receive(received(task, "a"))
    pool.waiting.append((None, (pool.given.pop(),)))
    pool.limiter.worker.lines.refused("one", [ONE], 1.0)
    pool.receive(received(task, "b"), received(task, "c"))
    pool.turn(lambda: len(pool.published) == 3, "all were refused")
    assert [name for name, _ in pool.published] == ["a", "b", "c"]


def test_what_has_its_place_can_be_overtaken(app: Celery, pool: Pool) -> None:
    """It has a grant, mostly: behind a busy pool there is always one."""
    hold(pool.limiter)
    task = limited(app)
    granted = received(task, "granted").again(Ticket("x:1", 0, 7))
    granted._waits = True
    pool.waiting.append((None, (granted,)))
    pool.receive(received(task, "new"))
    pool.turn(lambda: pool.published, "it was refused")
    assert len(pool.waiting) == 1


def test_what_came_by_a_granted_queue_goes_to_a_process(app: Celery, pool: Pool) -> None:
    """Even without a ticket, as it has been put before others by now."""
    request = received(limited(app))
    request.by_granted_queue = True
    pool.receive(request)
    assert pool.given == [request]


def test_what_was_given_to_a_process_is_not_taken_back(app: Celery, pool: Pool) -> None:
    """After a permit that it gave back it could be asked for again and again; later ones stay behind it."""
    task = limited(app)
    pool.receive(received(task, "a"))
    pool.limiter.process.releaser.start()
    pool.turn(lambda: pool.given, "a process has it")
    hold(pool.limiter)
    pool.limiter.worker.lines.refused("one", [ONE], 1.0)
    pool.waiting.append((None, (pool.given.pop(),)))
    later = received(task, "b")
    pool.receive(later)
    assert pool.given == [later]
    assert len(pool.waiting) == 1


def test_what_only_a_process_can_tell_is_not_overtaken(app: Celery, pool: Pool) -> None:
    hold(pool.limiter)
    task = limited(app)
    redelivered = received(task, "a", delivery_info={"redelivered": True})
    pool.waiting.append((None, (redelivered,)))
    request = received(task, "b")
    pool.receive(request)
    assert pool.given == [request]


def test_a_long_line_before_the_processes_is_not_searched(app: Celery, pool: Pool) -> None:
    hold(pool.limiter)
    pool.waiting.extend([(None, (object(),))] * line_asker.MOST_BEFORE)
    task = limited(app)
    first, second = received(task, "a"), received(task, "b")
    pool.receive(first)
    pool.waiting.append((None, (object(),)))
    pool.receive(second)
    assert pool.given == [second]


def test_a_message_that_has_waited_goes_to_a_process(app: Celery, pool: Pool) -> None:
    """It has its place by its ticket, and mostly a permit."""
    again = received(limited(app)).again(Ticket("x:1", 0, 7))
    again._waits = True
    pool.receive(again)
    assert pool.given == [again]


@pytest.mark.parametrize("priority", ["5", [1]], ids=["text", "list"])
def test_a_message_that_cannot_be_read_fails_in_a_process(
    app: Celery, pool: Pool, priority: object
) -> None:
    """An error in the event loop would end the worker."""
    request = received(limited(app), properties={"priority": priority})
    pool.receive(request)
    assert pool.given == [request]


CALLS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "template": ({"key": "{tenant}"}, {}),
    "key of the call": ({"key": "{tenant}"}, {"headers": {KEY: "given"}}),
    "weight of the call": ({"limit": 5}, {"headers": {WEIGHT: 3}}),
    "bounds": ({"wait_timeout": 60.0, "requeue_delay": 2.0}, {}),
    "requeue": ({"on_saturated": "requeue"}, {}),
    "park": ({"on_saturated": "park"}, {}),
    "priority": ({}, {"properties": {"priority": 7}}),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
@pytest.mark.parametrize("ways", [{SESSION: "me/1:2", PARKS: False}, {PARKS: True}], ids=str)
def test_it_asks_and_waits_as_a_process_would(
    app: Celery,
    pool: Pool,
    monkeypatch: pytest.MonkeyPatch,
    call: tuple[dict[str, Any], dict[str, Any]],
    ways: dict[str, Any],
) -> None:
    """The same acquire, and the same refused attempt."""
    options, changes = call
    monkeypatch.setattr(wait_policy, "_jitter", lambda: 0.7)
    task = limited(app, body, **options)
    request = received(task, args=("t",), **changes)
    request._request_dict.update(ways)
    asked, store = list[Any](), pool.store

    def acquire(*args: Any) -> Any:
        asked.append(args)
        (claim,), _, wait = args[:3]
        return Refusal(claim, Reason.SATURATED, 1, 1, Ticket("x:1", wait.priority, 7), 3, 4.5, 1.0)

    monkeypatch.setattr(store, "acquire", acquire)
    context = Context(dict(request.request_dict), args=request.args, called_directly=False)
    task.request_stack.push(context)
    with pytest.raises(Refused) as by_process:
        acquire_permit(task, request.args, request.kwargs)
    task.request_stack.pop()
    attempts = list[Any]()
    request.on_refused = attempts.append
    pool.limiter.worker.lines.refused("one", [*asked[0][0]], 1.0)
    pool.receive(request)
    pool.turn(lambda: attempts, "it was refused")
    assert len(asked) == 2
    assert asked[0] == asked[1]
    assert attempts == [by_process.value.attempt]


@pytest.mark.parametrize("reason", list(Reason))
def test_only_a_place_needs_no_process(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch, reason: Reason
) -> None:
    """A copy, for one, must not wait."""
    refusal = Refusal(ONE, reason, 1, 1, Ticket("x:1", 0, 7), 3, 4.5, 1.0)
    monkeypatch.setattr(pool.store, "acquire", lambda *_: refusal)
    request = received(limited(app))
    pool.receive(request)
    pool.turn(lambda: pool.given or pool.published, "there is an answer")
    waits = reason in (Reason.SATURATED, Reason.PAUSED, Reason.UNSATISFIABLE)
    assert bool(pool.published) == waits
    assert bool(pool.given) != waits


def test_those_behind_a_permit_follow_it(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their places would come before that of the one that gives the permit back."""
    monkeypatch.setattr(line_asker, "TOGETHER_S", 0.3)
    task, other = limited(app, body, key="{tenant}"), Claim("one", "x", 1)
    hold(pool.limiter, other)
    for key in ("a", "x"):
        pool.limiter.worker.lines.refused("one", [Claim("one", key, 1)], 1.0)
    pool.receive(*(received(task, name, args=(name[0],)) for name in ("a1", "x1", "a2", "a3")))
    pool.limiter.process.releaser.start()
    pool.turn(lambda: len(pool.given) == 3, "processes have three of them")
    assert [request.id for request in pool.given] == ["a1", "a2", "a3"]
    assert [name for name, _ in pool.published] == ["x1"]
    at = pool.store.snapshot("one/a")
    assert (at.occupied, at.waiting) == (0, 0)
    assert not any(request.waits for request in pool.given)


def test_a_permit_goes_back_before_a_process_asks(app: Celery, pool: Pool) -> None:
    """Else the store would take its holder for another run of the same task."""
    task = limited(app)
    request = received(task)
    pool.receive(request)
    ledger, releaser = pool.limiter.process.ledger, pool.limiter.process.releaser
    wait_until(lambda: not pool.limiter.worker.lines, 10, "the answer came")
    wait_until(lambda: not ledger.has(request.holder), 10, "its release is due")
    pool.limiter.on_wake()
    assert pool.store.snapshot("one").occupied == 1
    assert not pool.given
    releaser.start()
    pool.turn(lambda: pool.given, "a process has the message")
    assert pool.store.snapshot("one").occupied == 0
    (fresh,) = pool.given
    assert fresh.id == request.id
    assert fresh.holder != request.holder
    assert [*state.reserved_requests] == [fresh]
    assert not fresh.waits


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("away"), ValueError("a driver's"), OtherClaims(Ticket("y", 0, 1), (ONE,))],
    ids=lambda error: type(error).__name__,
)
def test_without_an_answer_a_process_tries(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The answer that was lost may have been a permit: it is released."""
    released = list[str]()
    process = pool.limiter.process

    def call_all(calls: Any) -> Any:
        if isinstance(error, OtherClaims):
            return [error] * len(calls)
        raise error

    monkeypatch.setattr(process.store, "call_all", call_all)
    monkeypatch.setattr(process.releaser, "release", lambda holder, *_: released.append(holder))
    requests = [received(limited(app), name) for name in "ab"]
    pool.receive(*requests)
    pool.turn(lambda: len(pool.given) == 2, "a process has them")
    assert sorted(released) == sorted(request.holder for request in requests)
    assert not pool.limiter.worker.lines
    assert not {request.holder for request in requests} & {each.holder for each in pool.given}


def test_those_of_the_next_batch_follow_it_too(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_asker, "CALLED", 2)
    monkeypatch.setattr(line_asker, "TOGETHER_S", 0.3)
    task, ledger = limited(app), pool.limiter.process.ledger
    requests = [received(task, name) for name in "abcd"]
    pool.receive(*requests)
    wait_until(lambda: not (pool.asker._new_waits or ledger._deliveries), 10, "all were answered")
    pool.limiter.process.releaser.start()
    pool.turn(lambda: len(pool.given) == 4, "processes have all")
    assert [request.id for request in pool.given] == ["a", "b", "c", "d"]
    assert not pool.published


def test_what_follows_one_that_follows_a_permit(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be before the one that it follows, at another resource."""
    x, y = Claim("x", None, 1), Claim("y", None, 1)
    ticket = Ticket("x:1", 0, 7)
    refusal = Refusal(y, Reason.SATURATED, 1, 1, ticket, 3, 4.5, 1.0)
    permit = Permit("a", 1, (x,), 0.0, 0.0, 1)
    monkeypatch.setattr(line_asker, "TOGETHER_S", 0.3)
    monkeypatch.setattr(pool.store, "call_all", lambda _: [permit, refusal, refusal])
    task, claims = limited(app), {"a": (x,), "b": (x, y), "c": (y,)}
    for name, each in claims.items():
        pool.limiter.worker.lines.refused("x", each, 1.0)
        pool.limiter.worker.lines.refused("y", each, 1.0)
        request = received(task, name)
        request.__dict__["plain_claims"] = each
        pool.receive(request)
    pool.limiter.process.releaser.start()
    pool.turn(lambda: len(pool.given) == 3, "processes have all")
    assert not pool.published


def test_a_store_that_hangs_is_asked_once(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the circuit breaker: each batch would wait for a timeout."""
    asked = list[int]()

    def call_all(calls: Any) -> Any:
        asked.append(len(calls))
        raise StoreUnavailable("hangs")

    monkeypatch.setattr(pool.store, "call_all", call_all)
    monkeypatch.setattr(line_asker, "TOGETHER_S", 0.3)
    task = limited(app)
    pool.receive(*(received(task, str(n)) for n in range(2 * CALLED)))
    pool.turn(lambda: len(pool.given) == 2 * CALLED, "processes have them")
    assert asked == [CALLED]
    assert not pool.limiter.process.ledger._deliveries


def test_what_a_lost_connection_delivered_is_not_asked_for(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(line_asker, "TOGETHER_S", 0.3)
    pool.receive(received(limited(app)))
    pool.asker.forget()
    hold(pool.limiter)
    pool.limiter.worker.lines.refused("one", [ONE], 1.0)
    pool.receive(received(limited(app), "y"))
    pool.turn(lambda: pool.published, "the next one was refused")
    assert [name for name, _ in pool.published] == ["y"]
    assert pool.store.snapshot("one").waiting == 1


def test_the_thread_ends_with_the_worker(app: Celery, pool: Pool) -> None:
    hold(pool.limiter)
    pool.receive(received(limited(app)))
    pool.turn(lambda: pool.published, "it was refused")
    pool.asker.close(5)
    assert not [each for each in threading.enumerate() if each.name == "celery-semaphore-lines"]


def test_what_a_lost_connection_delivered_is_left_alone(app: Celery, pool: Pool) -> None:
    """The broker delivers it again, and a process would run it twice."""
    pool.receive(received(limited(app)))
    pool.limiter.worker.connections += 1
    pool.limiter.process.releaser.start()
    wait_until(lambda: not pool.limiter.worker.lines, 10, "the answer came")
    pool.turn(lambda: not [*state.reserved_requests], "the message is forgotten")
    assert not pool.given
    assert not pool.published


def test_a_task_that_is_revoked_meanwhile_does_not_wait(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(pool.limiter)
    request = received(limited(app))
    monkeypatch.setattr(
        type(request), "_announce_revoked", lambda self, *_: setattr(self, "_already_revoked", True)
    )
    pool.receive(request)
    wait_until(lambda: pool.store.snapshot("one").waiting == 1, 10, "it is in line")
    state.revoked.add("x")
    pool.limiter.process.releaser.start()
    pool.turn(lambda: pool.store.snapshot("one").waiting == 0, "its wait has ended")
    assert not pool.published
    assert not pool.limiter.process.ledger._deliveries


def test_receivers_find_the_call_as_in_a_process(app: Celery, pool: Pool) -> None:
    hold(pool.limiter)
    pool.limiter.process.receivers.start()
    told = list[Any]()

    @task_saturated.connect
    def receiver(sender: Any, task_id: str, refusal: Any, **_: Any) -> None:
        request = sender.request
        told.append((task_id, request.id, request.args, request.called_directly, refusal.limit))

    try:
        pool.receive(received(limited(app, body), args=("t",)))
        pool.turn(lambda: told, "the receiver was called")
    finally:
        task_saturated.disconnect(receiver)
    assert told == [("x", "x", ("t",), False, 1)]
    task = limited(app, body)
    line_asker._tell_saturated(
        received(task), Refusal(ONE, Reason.SATURATED, 1, 1, None, 0, 1.0, 0.0)
    )
    assert task.request_stack.top is None


def test_an_error_in_the_loop_costs_no_message(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(pool.limiter)
    returned = list[str]()
    monkeypatch.setattr(line_asker, "refusal_of", lambda *_, **__: ValueError("of a policy"))
    requests = [received(limited(app), name) for name in "ab"]
    for request in requests:
        request.deliver_elsewhere = partial_append(returned, request.id)
    pool.receive(*requests)
    pool.turn(lambda: len(returned) == 2, "the broker delivers both")
    assert returned == ["a", "b"]
    assert not pool.limiter.process.ledger._deliveries


def partial_append(to: list[str], name: str) -> Callable[[], None]:
    return lambda: to.append(name)


def test_a_crowd_is_asked_for_in_parts(
    app: Celery, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    hold(pool.limiter)
    sizes, call_all = list[int](), pool.store.call_all

    def counted(calls: Any) -> Any:
        sizes.append(len(calls))
        return call_all(calls)

    monkeypatch.setattr(pool.store, "call_all", counted)
    monkeypatch.setattr(line_asker, "TOGETHER_S", 0.5)
    task = limited(app)
    pool.receive(*(received(task, str(n)) for n in range(2 * CALLED + 50)))
    pool.turn(lambda: len(pool.published) == 2 * CALLED + 50, "all were refused")
    assert max(sizes) == CALLED
    assert len(sizes) == 3


@pytest.mark.parametrize("lacks", ["", "hub", "processes", "tracking", "one round trip"])
def test_where_the_main_process_asks(app: Celery, lacks: str) -> None:
    app.conf.semaphore_track_waiting = lacks == "tracking"
    limiter: Any = limiter_of(app)
    limiter.notes = None if lacks == "processes" else object()
    limiter.process.store.one_round_trip = lacks != "one round trip"
    c: Any = SimpleNamespace(hub=None if lacks == "hub" else object())
    assert line_asker.asks_for_places(c, limiter) == (not lacks)
    limiter.notes = None


@pytest.mark.parametrize(
    ("why", "known"),
    [(Reason.SATURATED, True), (Reason.PAUSED, True), (Reason.UNSATISFIABLE, False)],
)
def test_a_refusal_says_that_there_is_a_line(
    app: Celery, monkeypatch: pytest.MonkeyPatch, *, why: Reason, known: bool
) -> None:
    """Past a task that is too heavy for its limit others may run."""
    noted = list[Any]()
    worker = limiter_of(app).worker
    monkeypatch.setattr(worker.lines, "refused", lambda *args: noted.append(args))
    monkeypatch.setattr(limiter_of(app).mover, "put_back", lambda *_: None)
    attempt = RefusedAttempt(
        reason="it waits",
        why=why,
        semaphore="one",
        destination=Destination.PUBLISHED,
        delay=0.5,
        claims=(ONE,),
    )
    received(limited(app)).on_refused(attempt)
    assert noted == ([("one", (ONE,), 0.5)] if known else [])


def test_a_task_that_came_through_a_fanout_fails_in_a_process(app: Celery, pool: Pool) -> None:
    request = received(limited(app))
    request._request_dict[FANOUT] = "an exchange"
    pool.receive(request)
    assert pool.given == [request]
