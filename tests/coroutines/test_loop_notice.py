"""LoopNotice: what wakes a coroutine is neither lost nor heard twice."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from celery_semaphore import AsyncSemaphore, Semaphore
from celery_semaphore.core.loop_notice import LoopNotice
from celery_semaphore.core.refusal import Answer, Refusal
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import SOON

from .loops import Run, soon_nothing_is_left

WAIT_S = 0.2


def test_one_that_is_set_before_the_wait(run: Run[float]) -> None:
    """It ends this wait, and not the next one."""

    async def main() -> float:
        notice = LoopNotice()
        notice.set()
        await asyncio.sleep(0)
        async with asyncio.timeout(SOON):
            await notice.wait(2 * SOON)
        since = time.monotonic()
        await notice.wait(WAIT_S)
        return time.monotonic() - since

    assert run(main()) > WAIT_S / 2


def test_one_whose_loop_is_closed(run: Run[LoopNotice]) -> None:
    async def main() -> LoopNotice:
        return LoopNotice()

    run(main()).set()


def unheard(notice: LoopNotice) -> float | None:
    return notice.unheard_since


def test_a_loop_that_runs_hears_of_it(run: Run[LoopNotice]) -> None:
    """Whether or not its coroutine waits; and one that is blocked, or closed, does not."""

    async def main() -> LoopNotice:
        notice = LoopNotice()
        assert unheard(notice) is None
        notice.set()
        since = unheard(notice)
        time.sleep(0.01)  # noqa: ASYNC251
        notice.set()
        assert unheard(notice) == since is not None
        await asyncio.sleep(0)
        assert unheard(notice) is None
        return notice

    notice = run(main())
    notice.set()
    assert unheard(notice) is not None


def test_told_while_the_refusal_is_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store answers no question, so this is all that it hears before a third of a lease has passed."""
    store = MemoryStore(StoreOptions(lease=3.0))
    api, here = AsyncSemaphore("api", 1, store=store), Semaphore("api", 1, store=store)
    permit, acquire = here.acquire(), store.acquire
    refusals, told = list[Refusal](), list[float]()

    def unanswered(*_: object, **__: object) -> None:
        raise StoreUnavailable("gone")

    def slowly(*given: Any) -> Answer:
        answer = acquire(*given)
        if isinstance(answer, Refusal):
            refusals.append(answer)
            if len(refusals) == 2:  # the first one puts it in line
                here.release(permit)
                told.append(time.monotonic())
                time.sleep(0.1)
        return answer

    monkeypatch.setattr(store, "ask", unanswered)
    monkeypatch.setattr(store, "acquire", slowly)

    async def main() -> None:
        taken = await api.acquire()
        assert time.monotonic() - told[0] < 0.7
        await api.release(taken)

    asyncio.run(main())
    soon_nothing_is_left(store)
