"""An error that a signal handler or a `gevent.Timeout` raises anywhere inside a call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from celery_semaphore import Semaphore, semaphore
from celery_semaphore.core import blocking_waiter, held_permits, lease
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.permit import Answer, Claim, Permit, Refusal
from celery_semaphore.core.store import HandedOn
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, Asked
from tests.support.process import wait_until

FILES = {module.__file__ for module in (semaphore, blocking_waiter, held_permits, lease)}


class Interrupted(BaseException):
    """Not even an `Exception`, as `KeyboardInterrupt` and `gevent.Timeout`."""


def struck_at(step: int, call: Callable[[], object]) -> bool:
    """Raise at this step of the call, and return whether it had so many.

    A step is where Python may run a signal handler: at the entry of a function, a line, or a return, which is the
    instruction after the call. Of the outermost function it is the caller's.
    """
    left = step

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename not in FILES:
            return None
        outermost = frame.f_back is None or frame.f_back.f_code.co_filename == __file__
        if event in {"call", "line"} or (event == "return" and not outermost):
            left -= 1
            if left < 0:
                raise Interrupted
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
    return False


def strikes(call: Callable[[], object]) -> Iterator[int]:
    """Interrupt one call after the other, each a step later, until one comes to its end."""
    step = 0
    while struck_at(step, call):
        yield step
        step += 1
    assert step > 20


ONE = Claim("api", None, 1)


class LetGo(Asked):
    """Ends the other holder's permit when the call was refused: it is granted while it waits."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        super().__init__(store)

    def answered(self, answer: Answer) -> Answer:
        if isinstance(answer, Refusal):
            self.store.release("other", [ONE])
        return answer


def leaves_nothing(store: MemoryStore) -> bool:
    """Whether this process renews no permit, and the store has none, nor a wait."""
    held = held_permits_in(store)
    return not (held._held or held._keeper._kept or list(store.resources()))


def test_an_acquire_leaves_nothing(store: MemoryStore) -> None:
    """Or its permit would be renewed until the process ends: its caller has no name for it."""
    api = Semaphore("api", 1, store=store)
    permits = list[Permit]()
    for step in strikes(lambda: permits.append(api.acquire())):
        assert leaves_nothing(store), step
    api.release(permits.pop())
    assert leaves_nothing(store)


def test_an_acquire_that_waited_leaves_nothing(store: MemoryStore) -> None:
    LetGo(store)
    api, permits = Semaphore("api", 1, store=store), list[Permit]()

    def acquire() -> None:
        store.acquire([ONE], "other")
        permits.append(api.acquire())

    for step in strikes(acquire):
        store.release("other", [ONE])
        assert leaves_nothing(store), step
    api.release(permits.pop())


def test_a_block_that_was_not_entered_leaves_nothing(store: MemoryStore) -> None:
    """Nor is it left in place of an outer block of the same object."""
    api = Semaphore("api", 2, store=store)
    with api as outer:
        for step in strikes(api.__enter__):
            assert [each.holder for each in api.holders()] == [outer.holder], step
            assert [permit for _, permit in semaphore._entered.get()] == [outer], step
        api.__exit__(None, None, None)
    assert leaves_nothing(store)


def test_a_release_that_was_interrupted_is_repeated(store: MemoryStore) -> None:
    """The store may not have been told, and the permit is renewed no more."""
    api, release = Semaphore("api", 1, store=store), store.release
    permit = api.acquire()

    def interrupted(*_: Any) -> HandedOn:
        store.release = release  # type: ignore[method-assign]
        raise Interrupted

    store.release = interrupted  # type: ignore[assignment,method-assign]
    with pytest.raises(Interrupted):
        api.release(permit)
    wait_until(lambda: leaves_nothing(store), SOON, "it is released")
    held_permits_in(store)._releaser.close(SOON)  # a later test may look for threads that stay
