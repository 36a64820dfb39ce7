"""Blocks in compiled code, such as Cython's, whose coroutines have no frame."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

import pytest

from celery_semaphore import AsyncSemaphore
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.memory import MemoryStore

from .loops import soon_nothing_is_left

Begin = Callable[[], Awaitable[Any]]


class Compiled(Coroutine[Any, Any, Any]):
    """Awaits one thing after the other; what they are called by is a new frame in each step, and ends with it."""

    def __init__(self, *begins: Begin) -> None:
        self._begins = list(begins)
        self._answers: list[Any] = []
        self._begun = self._begins.pop(0)().__await__()

    def send(self, value: Any) -> Any:
        while True:
            try:
                return self._begun.send(value)
            except StopIteration as end:
                self._answers.append(end.value)
            if not self._begins:
                raise StopIteration(self._answers)
            value, self._begun = None, self._begins.pop(0)().__await__()

    def throw(self, *error: Any) -> Any:
        return self._begun.throw(*error)

    def close(self) -> None:
        self._begun.close()

    def __await__(self) -> Any:
        raise NotImplementedError


def a_while() -> Awaitable[None]:
    return asyncio.sleep(random.random() * 0.05)


@pytest.mark.parametrize("nested", [1, 2])
def test_each_task_leaves_its_own_blocks(store: MemoryStore, nested: int) -> None:
    api, held = AsyncSemaphore("api", 99, store=store), held_permits_in(store)

    leave = partial(api.__aexit__, None, None, None)

    async def main() -> None:
        async def are_held(permits: Sequence[Permit]) -> bool:
            return all(map(held.has, permits))

        def body() -> Compiled:
            task = Compiled(
                *[api.__aenter__] * nested,
                a_while,
                lambda: are_held(task._answers[:nested]),
                *[leave] * nested,
            )
            return task

        answers = await asyncio.gather(*[asyncio.create_task(body()) for _ in range(40)])
        assert [each[nested + 1] for each in answers] == [True] * 40

    asyncio.run(main())
    soon_nothing_is_left(store)
