"""Semaphore.permit: a block with a time of its own."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from celery_semaphore import Semaphore, SemaphoreTimeout
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, occupied, thread
from tests.support.strikes import strikes

from .test_interrupted import FILES, leaves_nothing, soon_leaves_nothing


def test_it_has_a_time_of_its_own(store: MemoryStore) -> None:
    patient = Semaphore("api", 1, store=store)
    with patient.permit() as permit:
        assert [each.holder for each in patient.holders()] == [permit.holder]
        with pytest.raises(SemaphoreTimeout, match=r"no permit in 0\.05 s"), patient.permit(0.05):
            pass
        with pytest.raises(SemaphoreTimeout), patient.permit(timeout=0):
            pass
    assert occupied(store) == 0


def test_without_one_it_has_that_of_the_semaphore(store: MemoryStore) -> None:
    hasty = Semaphore("api", 1, store=store, timeout=0)
    with hasty.permit(), pytest.raises(SemaphoreTimeout), hasty.permit():
        pass


@pytest.mark.parametrize("timeout", [-1, float("nan"), "5", True])
def test_a_timeout_that_is_none(api: Semaphore, timeout: float) -> None:
    with pytest.raises(ConfigurationError, match="must be a number of seconds"):
        api.permit(timeout)


def test_it_may_be_left_in_another_thread(api: Semaphore, store: MemoryStore) -> None:
    block = api.permit()
    block.__enter__()
    with thread(lambda: block.__exit__(None, None, None)):
        pass
    assert occupied(store) == 0


def test_each_block_holds_a_permit_of_its_own(store: MemoryStore) -> None:
    two = Semaphore("api", 2, store=store, timeout=0)
    outer, inner = two.permit(), two.permit()
    with outer as first, inner as second:
        assert first.holder != second.holder
        with pytest.raises(RuntimeError, match="entered already"), outer:
            pass
        assert occupied(store) == 2
    assert occupied(store) == 0
    with outer:
        assert occupied(store) == 1


def test_two_threads_do_not_share_one(store: MemoryStore) -> None:
    """One of their permits would be forgotten, and renewed for ever."""
    two, acquire = Semaphore("api", 2, store=store), store.acquire
    block, began, over = two.permit(), threading.Event(), threading.Event()

    def slowly(*given: Any) -> Any:
        began.set()
        assert over.wait(SOON)
        return acquire(*given)

    store.acquire = slowly  # type: ignore[assignment,method-assign]
    with thread(block.__enter__):
        assert began.wait(SOON)
        with pytest.raises(RuntimeError, match="entered already"):
            block.__enter__()
        over.set()
    block.__exit__(None, None, None)
    assert leaves_nothing(store)
    with block:
        assert occupied(store) == 1


def test_a_block_that_was_not_entered_is_not_left(api: Semaphore) -> None:
    with pytest.raises(RuntimeError, match="not entered"):
        api.permit().__exit__(None, None, None)


def test_interrupted_while_it_is_entered(store: MemoryStore) -> None:
    api = Semaphore("api", 1, store=store)
    blocks = [api.permit()]

    def enter() -> None:
        blocks.append(api.permit())
        blocks[-1].__enter__()

    for step in strikes(enter, FILES):
        assert leaves_nothing(store), step
    blocks[-1].__exit__(None, None, None)
    assert leaves_nothing(store)


def test_interrupted_while_it_is_left(store: MemoryStore) -> None:
    api = Semaphore("api", 1, store=store)
    block = api.permit()
    block.__enter__()
    entered = 0
    for step in strikes(lambda: block.__exit__(None, None, None), FILES):
        if block._permit is not None:
            entered += 1
            block.__exit__(None, None, None)
        soon_leaves_nothing(store, step)
        block.__enter__()
    assert entered < step / 2, "most of it had begun"
    held_permits_in(store)._releaser.close(SOON)
