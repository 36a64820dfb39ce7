"""Errands and sweeps, without workers: who goes first, who fails, and what is looked for."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from celery.worker import state

from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.worker.errands import Errands
from celery_semaphore.worker.ledger import Ledger
from celery_semaphore.worker.note import NotePipe
from celery_semaphore.worker.sweeper import Sweeper
from celery_semaphore.worker.waiting import BringBack, PutBack
from tests.support.process import wait_until

from .test_caught_while_waiting import Store, parked, three_granted


class Errand:
    name = "an errand"

    def __init__(self, log: list[Any], *, urgent: bool = False, fails: bool = False) -> None:
        self.log, self.urgent, self.fails = log, urgent, fails
        self.attempts, self.given_up = 0, False
        self.may_go, self.began = threading.Event(), threading.Event()
        self.may_go.set()

    def run(self) -> None:
        self.attempts += 1
        self.began.set()
        self.may_go.wait(10)
        if self.fails:
            raise ValueError("not yet")
        self.log.append(self)

    def gave_up(self) -> None:
        self.given_up = True


@pytest.fixture
def errands() -> Iterator[Errands]:
    errands = Errands(1.0, lambda: None, lambda: None)
    yield errands
    errands.close()


def test_the_urgent_goes_first(errands: Errands) -> None:
    """A permit is kept for what is brought back; nobody waits for what is put back."""
    assert BringBack.urgent
    assert not PutBack.urgent
    log: list[Any] = []
    first, second, urgent = Errand(log), Errand(log), Errand(log, urgent=True)
    first.may_go.clear()
    errands.add(first)
    assert first.began.wait(10)
    errands.add(second)
    errands.add(urgent)
    first.may_go.set()
    errands.flush(10)
    assert log == [first, urgent, second]


def test_what_fails_holds_up_nobody(errands: Errands) -> None:
    log: list[Any] = []
    failing, other = Errand(log, fails=True), Errand(log)
    failing.may_go.clear()
    errands.add(failing)
    assert failing.began.wait(10)
    errands.add(other)
    failing.may_go.set()
    wait_until(lambda: log == [other], 10, "the other one is done")
    assert failing.attempts == 1
    wait_until(lambda: failing.given_up, 10, "it is given up")
    assert failing.attempts < 6


# -- what must be sent although nobody releases


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def revoked() -> Iterator[Any]:
    yield state.revoked
    state.revoked.clear()


def test_a_sweep_looks_for_the_revoked(store: Store, revoked: Any) -> None:
    found: list[Any] = []
    sweeper = Sweeper(lambda: store, found.append)
    store.set_limit(0, "one")
    parked(store, "b")
    sweeper.sweep()
    assert found == [frozenset()]
    revoked.add("b")
    store.error = StoreUnavailable("hung")
    with pytest.raises(StoreUnavailable):
        sweeper.sweep()
    store.error = None
    sweeper.sweep()
    assert found[1:] == [{"one"}]
    (over,) = store.take(found[1])
    assert over.token == 0
    sweeper.sweep()
    assert store.ended == [["b"], ["b"]], "once, when the store answered"


def test_a_sweep_finds_what_nobody_sent(store: Store) -> None:
    found: list[Any] = []
    three_granted(store)
    Sweeper(lambda: store, found.append).sweep()
    assert found == [{"one"}]


def test_what_a_process_handed_on_is_sent() -> None:
    handed: list[Any] = []
    keeper: Any = SimpleNamespace(discard=lambda _: None)
    ledger = Ledger(keeper, None, None, handed.append)  # type: ignore[arg-type]
    ledger.released("x", frozenset({"one"}))
    assert handed == [{"one"}]


def test_a_note_of_much_that_was_handed_on() -> None:
    """What does not fit is found by a sweep; the release itself must be noted."""
    noted: list[Any] = []
    books: Any = SimpleNamespace(released=lambda *note: noted.append(note))
    pipe = NotePipe()
    pipe.released("x", frozenset({"one"}))
    pipe.released("y", frozenset(f"{n:010}" for n in range(select.PIPE_BUF // 10)))
    assert pipe.drain(books)
    pipe.close()
    assert noted == [("x", frozenset({"one"})), ("y", frozenset())]
