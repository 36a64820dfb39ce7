"""The gate: the epoch that a delivery brings, and when a lease begins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from celery import Celery

from celery_semaphore import LimitedTask
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.formats import FORMAT
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Refusal
from celery_semaphore.core.wait import Kind, Wait
from celery_semaphore.task.signals import permit_acquired
from celery_semaphore.worker.limiter import limiter_of
from celery_semaphore.worker.messages.header_names import EPOCH, HOLDER, KEPT_TICKET
from celery_semaphore.worker.pool_process.refused_attempt import Refused
from tests.worker.main_process.test_request import request_dict
from tests.worker.requests import delivered, limited


def test_a_lease_counts_from_before_the_store_was_asked(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = limited(app)
    process, since = limiter_of(app).process, list[float]()
    acquire = process.store.acquire

    def slow(*args: Any) -> Any:
        time.sleep(0.3)
        return acquire(*args)

    monkeypatch.setattr(process.store, "acquire", slow, raising=False)
    monkeypatch.setattr(process.keeper, "add", lambda _, confirmed, __: since.append(confirmed))
    before = time.monotonic()
    delivered(task)
    assert since[0] < before + 0.2


def test_a_process_learns_the_epoch_from_its_delivery(app: Celery) -> None:
    """A new process asks a store that forgot: it must not admit itself before the living are back."""
    task = limited(app)
    sent = request_dict(task, epoch=7)
    limiter_of(app).process.store.epoch = None
    headers: dict[str, Any] = {EPOCH: sent.get(EPOCH)}
    with pytest.raises(Refused, match="recovering"):
        delivered(task, **headers)


def test_a_store_of_a_newer_format_leaves_nothing_to_release(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release would be repeated for a lease, for each attempt of each task that waits."""
    task, ledger = limited(app), limiter_of(app).process.ledger
    store: Any = limiter_of(app).process.store
    store.set_format(FORMAT + 1)
    ended: list[Any] = []
    monkeypatch.setattr(ledger, "ended", lambda *call, **_: ended.append(call))
    with pytest.raises(Refused, match="cannot be asked") as caught:
        delivered(task, "IGNORED")
    assert (caught.value.attempt.answer_known, ended) == (True, [])


def test_a_task_is_limited_whatever_is_assigned_to_it(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would run without a permit wherever it comes without our tracer, such as in an eager run."""
    task, called = limited(app), list[tuple[Any, ...]]()
    with monkeypatch.context() as patch:
        patch.setattr(task, "before_start", lambda *call: called.append(call))
        delivered(task)
        assert called == [("x", (), {})]
        with pytest.raises(Refused):  # no thread of this process has given the permit back
            delivered(task, **{HOLDER: "x:2"})
    with pytest.raises(Refused):
        delivered(task, **{HOLDER: "x:3"})
    assert len(called) == 1


def test_a_subclass_is_limited_whatever_it_defines(app: Celery) -> None:
    """Here without our tracer, which would acquire before."""
    called = list[str]()

    class Forgetful(LimitedTask):
        abstract = True

        def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
            called.append(task_id)

    task = limited(app, base=Forgetful)
    delivered(task)
    with pytest.raises(Refused):
        delivered(task, **{HOLDER: "x:2"})
    assert called == ["x"]


def test_what_is_assigned_may_call_what_was_there(app: Celery) -> None:
    task, before = limited(app, limit=2), list[str]()
    original = task.before_start

    def assigned(*call: Any) -> None:
        before.append("assigned")
        original(*call)

    task.before_start = assigned
    acquired = receiver_of(before)
    permit_acquired.connect(acquired)
    delivered(task)
    permit_acquired.disconnect(acquired)
    assert before == ["acquired", "assigned"], "once, and first"
    del task.before_start
    delivered(task, **{HOLDER: "x:2"})
    assert before == ["acquired", "assigned"], "the task has its own again"


def test_what_is_assigned_before_the_task_is_bound_runs(app: Celery) -> None:
    """Celery makes the instance first, and binds it to the app afterwards."""
    called = list[str]()

    class Assigning(LimitedTask):
        abstract = True

        def __init__(self) -> None:
            self.before_start = lambda task_id, *_: called.append(task_id)

    task = limited(app, base=Assigning)
    delivered(task)
    with pytest.raises(Refused):
        delivered(task, **{HOLDER: "x:2"})
    assert called == ["x"]


def test_what_is_assigned_to_a_task_is_not_that_of_its_parent(app: Celery) -> None:
    called = list[str]()

    class Parent(LimitedTask):
        name, semaphore, limit = "parent", "one", 3

        def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
            called.append("parent")

    class Child(Parent):
        name = "child"

        def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
            called.append("child")
            super().before_start(task_id, args, kwargs)

    def assigned(*call: Any) -> None:
        called.append("assigned")
        original(*call)

    app.register_task(Parent())
    task = app.register_task(Child())
    original = task.before_start
    task.before_start = assigned
    delivered(task)
    assert called == ["assigned", "child", "parent"]


def test_nothing_is_assigned(app: Celery) -> None:
    task = limited(app, limit=3)
    with pytest.raises(AttributeError):
        del task.before_start
    task.before_start = None  # Celery calls nothing then
    delivered(task)
    del task.before_start
    delivered(task, **{HOLDER: "x:2"})


def receiver_of(seen: list[str]) -> Any:
    def acquired(**_: Any) -> None:
        seen.append("acquired")

    return acquired


KEPT, OWN = Claim("one", "kept", 1), Claim("one", "now", 3)


@dataclass
class Calls:
    """What a delivery noted, got and released."""

    asked: list[list[Claim]]
    permits: list[Permit]
    released: list[tuple[str, Sequence[Claim]]]


def come_back(
    app: Celery, patch: pytest.MonkeyPatch, waits_for: Claim, *, full: bool = True, **options: Any
) -> Calls:
    """Deliver a task that waits for this claim, and has its options by now."""
    task, calls = limited(app, **options), Calls([], [], [])
    process = limiter_of(app).process
    if full:
        assert isinstance(process.store.acquire([waits_for], "busy"), Permit)
    process.store.set_limit(0, waits_for.resource)
    waits = process.store.acquire([waits_for], "x:0", Wait(Kind.REQUEUE))
    process.store.set_limit(None, waits_for.resource)
    assert isinstance(waits, Refusal)
    assert waits.ticket
    note = process.ledger.asked

    def noted(holder: str, claims: Sequence[Claim]) -> None:
        calls.asked.append(list(claims))
        note(holder, claims)

    def receive(permit: Permit, **_: Any) -> None:
        calls.permits.append(permit)

    patch.setattr(process.ledger, "asked", noted)
    patch.setattr(process.releaser, "release", lambda *call: calls.released.append(call[:2]))
    permit_acquired.connect(receive, sender=task)
    delivered(task, **{KEPT_TICKET: waits.ticket.text})
    return calls


def test_a_task_that_waits_keeps_its_claims(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """A19: note the claims of its wait, with the limit that is declared now, and ask again; then release those."""
    two = (replace(KEPT, limit=2), Claim("one", "kept", 2, weight=2))
    calls = come_back(app, monkeypatch, two[1], full=False, key=lambda: "kept", limit=2)
    assert calls.asked == [[two[0]], [two[1]]]
    assert [permit.claims for permit in calls.permits] == [(two[1],)]
    assert calls.released == [("x:1", (two[1],))]


def test_the_limit_of_another_key_is_not_that_of_the_wait(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callable gives each key its own limit."""
    with pytest.raises(Refused):
        come_back(app, monkeypatch, KEPT, key=lambda: "now", limit=3)


def test_a_wait_of_another_key_keeps_its_own_limit(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = come_back(app, monkeypatch, KEPT, full=False, key=lambda: "now", limit=3)
    assert calls.asked == [[OWN], [KEPT]]
    assert [permit.claims for permit in calls.permits] == [(KEPT,)]


@pytest.mark.parametrize(
    "kept",
    [Claim("one", "now", 4, weight=4), Claim("one", "kept", 0), Claim("one", "kept", 1, weight=2)],
    ids=["heavier than the limit", "another key said 0", "another key, heavier"],
)
def test_a_wait_that_could_never_run_ends(
    app: Celery, monkeypatch: pytest.MonkeyPatch, kept: Claim
) -> None:
    """A deploy lowered limit and weight together, or a callable would be asked about another key."""
    calls = come_back(app, monkeypatch, kept, full=False, key=lambda: "now", limit=3)
    assert calls.asked == [[OWN], [OWN]]
    assert [permit.claims for permit in calls.permits] == [(OWN,)]
    assert limiter_of(app).process.store.snapshot(kept.resource).waiting == 0


def test_a_wait_outlives_a_limit_of_0(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    """E17: the callable will be asked again about this key."""
    heavy = Claim("one", "now", 3, weight=2)
    with pytest.raises(Refused):
        come_back(app, monkeypatch, heavy, full=False, key=lambda: "now", limit=lambda: 0)
    (waiter,) = limiter_of(app).process.store.snapshot(heavy.resource).waiters
    assert waiter.weight == heavy.weight
