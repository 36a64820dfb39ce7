"""Acquisition: what one acquire decides, without a thread and without a clock."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from celery_semaphore import SemaphoreTimeout
from celery_semaphore.core import acquisition
from celery_semaphore.core.acquisition import Acquisition, Pause, Run
from celery_semaphore.core.asker import asker_of
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit, Renewal
from celery_semaphore.core.store import Acquire
from celery_semaphore.errors import ResourceBusy, StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore

CLAIMS = (Claim("api", None, 1),)
LEASE = 30.0


class Clock:
    """The monotonic clock of the process, and of nothing else."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(acquisition, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def asked(step: object) -> Acquire:
    assert isinstance(step, Acquire)
    return step


def acquired(store: MemoryStore, step: object) -> Any:
    made = asked(step)
    return store.acquire(made.claims, made.holder, made.wait)


def ended(steps: Any, said: object) -> tuple[Permit, float]:
    with pytest.raises(StopIteration) as end:
        steps.send(said)
    value: tuple[Permit, float] = end.value.value
    return value


def test_an_answer_in_time_is_the_end(store: MemoryStore, clock: Clock) -> None:
    steps = Acquisition(store, CLAIMS, 5.0).steps()
    answer = acquired(store, next(steps))
    clock.now += LEASE / 3
    assert ended(steps, answer) == (answer, 1000.0)


def test_a_permit_whose_answer_is_read_late_is_renewed_first(
    store: MemoryStore, clock: Clock
) -> None:
    one = Acquisition(store, CLAIMS, LEASE)
    steps = one.steps()
    answer = acquired(store, next(steps))
    clock.now += LEASE / 3 + 0.1
    renew = steps.send(answer)
    assert isinstance(renew, Run)
    assert renew.call() == Renewal.OK
    assert one.names() == [answer.holder], "it may be held"
    assert ended(steps, Renewal.OK) == (answer, clock.now)


def test_a_renewal_that_is_read_late_is_made_again(store: MemoryStore, clock: Clock) -> None:
    steps = Acquisition(store, CLAIMS, 10 * LEASE).steps()
    answer = acquired(store, next(steps))
    clock.now += LEASE
    assert isinstance(steps.send(answer), Run)
    clock.now += LEASE
    assert isinstance(steps.send(Renewal.OK), Run)
    assert ended(steps, Renewal.OK) == (answer, clock.now)


def test_a_permit_that_cannot_be_confirmed_in_time_is_given_up(
    store: MemoryStore, clock: Clock
) -> None:
    """Its loop is blocked again and again, or each answer of the store takes long: no timeout would ever end it."""
    one = Acquisition(store, CLAIMS, LEASE)
    steps = one.steps()
    answer = acquired(store, next(steps))
    clock.now += LEASE / 2
    assert isinstance(steps.send(answer), Run)
    clock.now += LEASE / 2
    with pytest.raises(SemaphoreTimeout, match="read too late to be sure of the permit"):
        steps.send(Renewal.OK)
    assert one.names() == [answer.holder], "it is held"


def test_a_call_that_was_interrupted_as_it_began_to_wait(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal handler raised when the thread that asks knew of it, and it did not."""
    store.acquire(CLAIMS, "other")
    asker, one = asker_of(store), Acquisition(store, CLAIMS, LEASE)
    add = asker.add

    def interrupted(*given: Any) -> None:
        add(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(asker, "add", interrupted)
    steps = one.steps()
    answer = acquired(store, next(steps))
    with pytest.raises(KeyboardInterrupt):
        steps.send(answer)
    assert asker._waiting
    one.end()
    assert not asker._waiting
    asker.end_if_idle()


def test_one_that_asks_once_confirms_its_permit_once(store: MemoryStore, clock: Clock) -> None:
    steps = Acquisition(store, CLAIMS, 0.0).steps()
    answer = acquired(store, next(steps))
    clock.now += LEASE
    assert isinstance(steps.send(answer), Run)
    assert ended(steps, Renewal.OK) == (answer, clock.now)


def test_a_permit_that_is_lost_by_then_is_acquired_by_another_name(
    store: MemoryStore, clock: Clock
) -> None:
    """Its own name is dead."""
    steps = Acquisition(store, CLAIMS, 10 * LEASE).steps()
    answer = acquired(store, next(steps))
    store.release(answer.holder, CLAIMS)
    clock.now += LEASE
    renew = steps.send(answer)
    assert isinstance(renew, Run)
    again = acquired(store, steps.send(renew.call()))
    assert again.holder != answer.holder
    assert ended(steps, again) == (again, clock.now), "its lease counts from its own acquire"


def test_a_permit_that_is_lost_after_the_timeout_is_none(store: MemoryStore, clock: Clock) -> None:
    steps = Acquisition(store, CLAIMS, 5.0).steps()
    answer = acquired(store, next(steps))
    clock.now += LEASE
    assert isinstance(steps.send(answer), Run)
    with pytest.raises(SemaphoreTimeout, match="its lease ended before the answer"):
        steps.send(Renewal.LOST)


def test_a_renewal_without_an_answer_is_an_outage(
    store: MemoryStore, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same holder asks again, which gives it the same permit."""
    monkeypatch.setattr(store, "renew", lambda _: {})
    one = Acquisition(store, CLAIMS, 10 * LEASE)
    steps = one.steps()
    answer = acquired(store, next(steps))
    clock.now += LEASE
    renew = steps.send(answer)
    assert isinstance(renew, Run)
    with pytest.raises(ResourceBusy) as unavailable:
        renew.call()
    pause = steps.throw(unavailable.value)
    assert isinstance(pause, Pause)
    assert one.names() == [answer.holder]
    assert asked(steps.send(None)).holder == answer.holder


def test_of_what_is_given_up_the_holder_is_released_first(store: MemoryStore) -> None:
    """An acquire that is on its way would stand in line again by the ticket that was released before it."""
    store.acquire(CLAIMS, "a")
    one = Acquisition(store, CLAIMS, 5.0)
    steps = one.steps()
    pause = steps.send(acquired(store, next(steps)))
    assert isinstance(pause, Pause)
    again = asked(steps.send(None))
    holder, ticket = one.names()
    assert holder == again.holder
    store.release(holder, CLAIMS)
    store.acquire(again.claims, again.holder, again.wait)  # it arrives now
    store.release(ticket, CLAIMS)
    store.release("a", CLAIMS)
    assert list(store.resources()) == []
    one.end()


def test_what_on_answer_raises_ends_it(store: MemoryStore) -> None:
    def end(answer: object) -> None:
        raise LookupError

    store.acquire(CLAIMS, "a")
    steps = Acquisition(store, CLAIMS, 5.0, on_answer=end).steps()
    told = steps.send(acquired(store, next(steps)))
    assert isinstance(told, Run)
    with pytest.raises(LookupError):
        told.call()


def test_a_store_that_is_not_ready_was_not_asked(store: MemoryStore) -> None:
    one = Acquisition(store, CLAIMS, 5.0, ready=lambda: None)
    steps = one.steps()
    assert isinstance(next(steps), Run)
    assert isinstance(steps.throw(StoreUnavailable("gone")), Pause)
    assert one.names() == []


def test_a_refusal_that_names_an_earlier_session_is_no_reason_to_wait(store: MemoryStore) -> None:
    """The asker took another one meanwhile, and asks for no grant of the old one."""
    store.acquire(CLAIMS, "a")
    steps = Acquisition(store, CLAIMS, 5.0).steps()
    answer = acquired(store, next(steps))
    asker_of(store).session = "new"
    step = steps.send(answer)
    assert isinstance(step, Acquire), "it asks again at once"
    assert step.wait
    assert step.wait.session == "new"
    assert isinstance(steps.send(acquired(store, step)), Pause)
