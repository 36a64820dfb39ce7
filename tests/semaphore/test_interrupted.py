"""An error that a signal handler or a `gevent.Timeout` raises anywhere inside a call."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

import pytest

from celery_semaphore import (
    Semaphore,
    SemaphoreTimeout,
    semaphore,
    semaphore_base,
    with_blocks,
)
from celery_semaphore.core import acquisition, blocking_waiter, held_permits, lease
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.permit import Permit
from celery_semaphore.core.refusal import Answer, Refusal
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, Asked, in_child, known
from tests.support.process import wait_until
from tests.support.servers import ValkeyServer
from tests.support.strikes import Interrupted, strikes, struck_at

MODULES = (semaphore, semaphore_base, acquisition, blocking_waiter, held_permits, lease)
FILES = {str(module.__file__) for module in MODULES}


# At the entry of a function no line of it has run, and a line that calls nothing has no place for a handler.
FIRST_LINES = 4


ONE = Claim("api", None, 1)


class LetGo(Asked):
    """Ends the other holder's permit when the call was refused: it is granted while it waits."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.let_go = False
        super().__init__(store)

    def answered(self, answer: Answer) -> Answer:
        if isinstance(answer, Refusal):
            self.let_go = True
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
    for step in strikes(lambda: permits.append(api.acquire()), FILES):
        assert leaves_nothing(store), step
    api.release(permits.pop())
    assert leaves_nothing(store)


def test_an_acquire_that_waited_leaves_nothing() -> None:
    """Nor a place in line, which would be granted a permit that nobody takes up."""
    refused = list[bool]()

    def acquire() -> None:
        store = stores[-1]
        store.acquire([ONE], "other")
        permits.append(Semaphore("api", 1, store=store).acquire())
        refused.append(ended.let_go)

    stores, permits = [MemoryStore()], list[Permit]()
    ended = LetGo(stores[-1])
    for step in strikes(acquire, FILES):
        stores[-1].release("other", [ONE])
        assert leaves_nothing(stores[-1]), step
        stores.append(MemoryStore())
        ended = LetGo(stores[-1])
    assert refused == [True], "it waited"
    for store in stores:
        held_permits_in(store).close()


def test_an_acquire_that_times_out_leaves_no_place() -> None:
    """The interruption may come while it leaves the line. It stays only if that had not begun."""
    stores, stayed = [MemoryStore()], 0

    def acquire() -> None:
        stores[-1].acquire([ONE], "other")
        with suppress(SemaphoreTimeout):
            Semaphore("api", 1, store=stores[-1]).acquire(timeout=0.001)

    def has_left() -> bool:
        return not stores[-1].snapshot("api").waiting

    for step in strikes(acquire, FILES):
        assert not known(stores[-1]), step
        try:
            wait_until(has_left, 0.5)
        except TimeoutError:
            stayed += 1
        stores.append(MemoryStore())
    assert stayed <= 4
    for store in stores:
        held_permits_in(store).close()


def test_a_block_that_was_not_entered_leaves_nothing(store: MemoryStore) -> None:
    """Nor is it left in place of an outer block of the same object."""
    api = Semaphore("api", 2, store=store)
    with api as outer:
        for step in strikes(api.__enter__, FILES):
            assert [each.holder for each in api.holders()] == [outer.holder], step
            assert [each.permit for each in with_blocks._entered.get()] == [outer], step
        api.__exit__(None, None, None)
    assert leaves_nothing(store)


def soon_leaves_nothing(store: MemoryStore, step: int) -> None:
    wait_until(lambda: leaves_nothing(store), SOON, f"it is released, step {step}")


def test_a_release_leaves_nothing_or_can_be_repeated(store: MemoryStore) -> None:
    """The store may not have been told: a thread tells it, unless the permit is as if nothing had been called."""
    api, permits = Semaphore("api", 1, store=store), list[Permit]()
    permits.append(api.acquire())
    repeated = 0
    for step in strikes(lambda: api.release(permits[-1]), FILES):
        if held_permits_in(store).has(permits[-1]):
            repeated += 1
            api.release(permits[-1])
        soon_leaves_nothing(store, step)
        permits.append(api.acquire())
    assert repeated < step / 2, "most of it had begun"
    held_permits_in(store)._releaser.close(SOON)  # a later test may look for threads that stay


def test_a_block_that_is_left_leaves_nothing(store: MemoryStore) -> None:
    """As ``with`` cannot leave it twice, nothing stays with the caller once the first line has run."""
    api, permits = Semaphore("api", 1, store=store), list[Permit]()
    permits.append(api.__enter__())
    entered = 0
    for step in strikes(lambda: api.__exit__(None, None, None), FILES):
        if held_permits_in(store)._held:
            entered += 1
            api.__exit__(None, None, None)
        soon_leaves_nothing(store, step)
        permits.append(api.__enter__())
    assert entered <= FIRST_LINES, entered
    held_permits_in(store)._releaser.close(SOON)


def test_blocks_within_each_other_leave_nothing(store: MemoryStore) -> None:
    """The outer one is left by what the signal raised, though it came at the end of the inner one."""
    api, stayed = Semaphore("api", 2, store=store), 0

    def both() -> None:
        with api, api:
            pass

    for _ in strikes(both, FILES):
        try:
            wait_until(lambda: leaves_nothing(store), 0.2)
        except TimeoutError:
            stayed += 1
            for each in api.holders():
                held_permits_in(store).take(each.holder)
                store.release(each.holder, [ONE])
        with_blocks._entered.set(())
        api._blocks._entered.clear()
    assert stayed <= 2 * FIRST_LINES
    held_permits_in(store)._releaser.close(SOON)


@pytest.mark.parametrize("form", ["with", "permit"])
def test_a_block_that_is_left_with_two_signals(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """The second one comes when the release that the first one interrupted is queued by ``release`` itself."""
    api, queue = Semaphore("api", 1, store=store), held_permits.HeldPermits.release_later
    seconds, struck = list[int](), 0

    def struck_once(self: held_permits.HeldPermits, *given: Any) -> None:
        if len(seconds) <= struck and sys._getframe(2).f_code.co_name == "release":
            seconds.append(struck)
            raise Interrupted
        queue(self, *given)

    monkeypatch.setattr(held_permits.HeldPermits, "release_later", struck_once)
    blocks = [api if form == "with" else api.permit()]
    blocks[-1].__enter__()
    for step in strikes(lambda: blocks[-1].__exit__(None, None, None), FILES):
        if held_permits_in(store)._held:  # as if nothing had been called
            blocks[-1].__exit__(None, None, None)
        soon_leaves_nothing(store, step)
        struck = len(seconds)
        blocks.append(api if form == "with" else api.permit())
        blocks[-1].__enter__()
    assert struck > 5
    held_permits_in(store)._releaser.close(SOON)


def test_a_forked_child_releases_nothing_of_its_parent(valkey: ValkeyServer) -> None:
    """Whichever way its copy of the parent's block is left, or interrupted there."""
    api = Semaphore("api", 2, url=valkey.url)
    block = api.permit()

    def child() -> bool:
        ways = (lambda: api.release(mine), lambda: api.__exit__(None, None, None))
        for leave in (*ways, lambda: block.__exit__(None, None, None)):
            for step in range(60):
                before = block._permit, with_blocks._entered.get(), api._blocks._entered.copy()
                struck_at(step, leave, FILES)
                block._permit = before[0]
                with_blocks._entered.set(before[1])
                api._blocks._entered.update(before[2])
        held_permits_in(api._store).flush(SOON)
        return not held_permits_in(api._store)._held

    with api as mine, block:
        assert in_child(child)
        assert len(api.holders()) == 2
    assert not api.holders()
