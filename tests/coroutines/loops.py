"""Event loops of both kinds, and what a process must not have left when its coroutines are gone."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from celery_semaphore.core.asker import asker_of
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.store import Store
from tests.support.calling import SOON
from tests.support.process import wait_until

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]
LOOPS = ["asyncio", "uvloop"]


def run_in(kind: str) -> Run[Any]:
    """Return a function that runs a coroutine in a loop of this kind."""
    factory = pytest.importorskip("uvloop").new_event_loop if kind == "uvloop" else None

    def run(main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=factory) as runner:
            return runner.run(main)

    return run


def left(store: Store, resource: str = "api") -> dict[str, object]:
    """Return what is left in the store and in this process, but for what is empty."""
    held, seen = held_permits_in(store), store.snapshot(resource)
    found = {
        "holders": [each.holder for each in seen.holders],
        "waiting": seen.waiting,
        "held": [*held._held],
        "renewed": [*held._keeper._kept],
        "asked for": [*asker_of(store)._waiting],
    }
    return {name: each for name, each in found.items() if each}


def soon_nothing_is_left(store: Store, timeout: float = 3.0, *, of: str = "api") -> None:
    wait_until(lambda: not left(store, of), timeout, f"nothing is left: {left(store, of)}")


def threads_of_ours() -> set[threading.Thread]:
    """Return the threads of the library that run, of all stores."""
    return {each for each in threading.enumerate() if each.name.startswith("celery-semaphore")}


async def until(condition: Callable[[], object]) -> None:
    """Wait, in the loop, until this holds."""
    async with asyncio.timeout(SOON):
        while not condition():  # noqa: ASYNC110 - what is waited for knows no event
            await asyncio.sleep(0.002)
