"""An error of a signal handler, such as Celery's soft time limit, while a coroutine enters, leaves or releases."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import pytest

from celery_semaphore import (
    AsyncSemaphore,
    async_permit_block,
    async_semaphore,
)
from celery_semaphore.core import (
    acquisition,
    held_permits,
    lease,
    loop_waiter,
    queued_calls,
)
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.loop_calls import loop_calls_of
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, waiting
from tests.support.process import wait_until
from tests.support.strikes import strikes

from .loops import soon_nothing_is_left, until

MODULES = (async_semaphore, async_permit_block, held_permits, lease, queued_calls)
ONE = Claim("api", None, 1)
FILES = {str(module.__file__) for module in MODULES}
ACQUIRING = {*FILES, *(str(module.__file__) for module in (loop_waiter, acquisition))}
# No line of a function has run at its entry, and the first one of a block has not begun to leave it.
FIRST_LINES = 6
MOST_STEPS = 500

# One that was made, and is not awaited, as it is interrupted in between.
pytestmark = pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
Ended = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run() -> Iterator[Ended]:
    with asyncio.Runner() as runner:
        yield runner.run
    gc.collect()  # here: a later test would get the warnings


def test_a_release_leaves_nothing_or_can_be_repeated(store: MemoryStore, run: Ended) -> None:
    api, repeated = AsyncSemaphore("api", 1, store=store), 0
    permits: list[Permit] = [run(api.acquire())]

    async def release() -> None:
        await api.release(permits[-1])

    for step in strikes(lambda: run(release()), FILES):
        if held_permits_in(store).has(permits[-1]):
            repeated += 1
            run(release())
        soon_nothing_is_left(store)
        assert step < MOST_STEPS
        permits.append(run(api.acquire()))
    assert repeated <= FIRST_LINES < step / 3
    held_permits_in(store)._releaser.close(1.0)


class Cancelled:
    """Cancels acquires, each of a store of its own: under way, so that it is given a permit, or in line."""

    def __init__(self, run: Ended, *, is_in_line: bool) -> None:
        self._run, self._is_in_line = run, is_in_line
        self.store = MemoryStore()

    def __call__(self) -> None:
        self.store = MemoryStore()
        held_permits_in(self.store).check()
        if self._is_in_line:
            self.store.acquire([ONE], "other")
        self._run(self._one())

    async def _one(self) -> None:
        asked, may_answer = threading.Event(), threading.Event()
        call_all = self.store.call_all

        def answered(calls: Any) -> Any:
            asked.set()
            assert self._is_in_line or may_answer.wait(SOON)
            return call_all(calls)

        self.store.call_all = answered  # type: ignore[method-assign]
        acquiring = asyncio.create_task(AsyncSemaphore("api", 1, store=self.store).acquire())
        is_there = partial(waiting, self.store) if self._is_in_line else asked.is_set
        await until(lambda: acquiring.done() or is_there())
        acquiring.cancel()
        await asyncio.wait([acquiring])
        may_answer.set()
        if not acquiring.cancelled() and (error := acquiring.exception()):
            raise error

    def left(self) -> int:
        """Return how many permits and places stay when all is released."""
        calls, releaser = loop_calls_of(self.store), held_permits_in(self.store)._releaser
        wait_until(lambda: not (calls._left or releaser._jobs or releaser._releases))
        self.store.release("other", [ONE])
        held_permits_in(self.store).close()
        return len(list(self.store.resources()))


@pytest.mark.parametrize("is_in_line", [False, True])
def test_an_acquire_that_is_cancelled_leaves_nothing(run: Ended, *, is_in_line: bool) -> None:
    """Interrupted at each step, also of what gives up the permit that it is given meanwhile, or its place in line."""
    cancelled, stayed = Cancelled(run, is_in_line=is_in_line), 0
    for step in strikes(cancelled, ACQUIRING):
        stayed += bool(cancelled.left())
        assert step < MOST_STEPS
    assert stayed <= FIRST_LINES < step / 3


@pytest.mark.parametrize("form", ["with", "permit", "stack"])
def test_a_block_leaves_nothing(store: MemoryStore, run: Ended, form: str) -> None:
    """Interrupted at each step of its entry and of its end; but before the end has begun nothing is left."""
    api, stayed, bodies = AsyncSemaphore("api", 1, store=store), 0, list[int]()
    held, blocks = held_permits_in(store), [api.permit()]

    async def enter_and_leave() -> None:
        bodies.append(0)
        async with api if form == "with" else blocks[-1]:
            bodies[-1] = 1

    async def enter_and_leave_a_stack() -> None:
        bodies.append(0)
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(api)
            bodies[-1] = 1

    call = enter_and_leave_a_stack if form == "stack" else enter_and_leave
    for step in strikes(lambda: run(call()), FILES):
        if held._held:
            stayed += 1
            for block in (*api._blocks, *blocks):
                block.release_later()
        soon_nothing_is_left(store)
        assert step < MOST_STEPS
        blocks.append(api.permit())
    assert stayed <= FIRST_LINES
    assert len(bodies) / 4 < sum(bodies) < len(bodies) * 3 / 4, "some at its entry, some at its end"
    held._releaser.close(1.0)
