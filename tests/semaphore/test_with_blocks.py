"""With blocks: each leaves with its own permit, in whatever context or thread its steps run."""

import gc
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack
from contextvars import copy_context
from functools import partial
from typing import Any

import pytest

from celery_semaphore import Semaphore, with_blocks
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, collected_by_hand, occupied, thread
from tests.support.process import wait_until

from .clients import Client

HELD_BY = ["with", "stack"]


def items(api: Semaphore, form: str) -> Generator[Permit, None, None]:
    """Enter and leave in one of the ways that a semaphore itself allows."""
    if form == "stack":
        with ExitStack() as stack:
            yield stack.enter_context(api)
    else:
        with api as permit:
            yield permit


BY_HAND = ["stack", "client"]


def by_hand(api: Semaphore, form: str) -> tuple[Callable[[], Permit], Callable[[], None]]:
    """Return what enters, and what leaves in another frame."""
    if form == "client":
        client = Client(api)
        return client.__enter__, client.__exit__
    stack = ExitStack()
    return partial(stack.enter_context, api), stack.close


def test_a_generator_whose_steps_have_contexts_of_their_own(store: MemoryStore) -> None:
    """As those that Starlette runs in threads; a block of another thread keeps its permit."""
    shared = Semaphore("api", 4, store=store, timeout=SOON)
    inside, leave = list[Permit](), threading.Event()

    def items() -> Generator[Permit, None, None]:
        with shared as permit:
            yield permit
            shared.extend(permit)

    def hold() -> None:
        with shared as permit:
            inside.append(permit)
            leave.wait(SOON)
            shared.extend(permit)

    def step(generator: Generator[Permit, None, None]) -> None:
        copy_context().run(next, generator, None)

    with thread(hold):
        wait_until(lambda: inside, SOON)
        one, other, third = items(), items(), items()
        for each in (one, other, third, other):  # the last step ends its generator
            step(each)
        assert occupied(store) == 3
        step(one)
        copy_context().run(third.close)
        assert [held.holder for held in shared.holders()] == [inside[0].holder]
        leave.set()
    assert occupied(store) == 0


def test_a_generator_within_a_block_of_its_semaphore(store: MemoryStore) -> None:
    """Each of its steps has a copy of the context with the outer block."""
    shared = Semaphore("api", 2, store=store, timeout=SOON)

    def items() -> Generator[None, None, None]:
        with shared:
            yield

    with shared as outer:
        generator = items()
        for _ in range(2):
            copy_context().run(next, generator, None)
        shared.extend(outer)
        assert occupied(store) == 1
    assert occupied(store) == 0


@pytest.mark.parametrize("mine", HELD_BY)
@pytest.mark.parametrize("dropped", HELD_BY)
def test_a_generator_that_is_collected_in_another_thread(
    store: MemoryStore, dropped: str, mine: str
) -> None:
    """That thread keeps its own permit, and the one in which it was entered runs on."""
    shared = Semaphore("api", 2, store=store, timeout=SOON)
    entered, to_end = threading.Event(), threading.Event()

    def drop() -> None:
        cycle: list[Any] = [items(shared, dropped)]
        cycle.append(cycle)  # so that the collector alone closes it
        next(cycle[0])
        del cycle
        entered.set()
        assert to_end.wait(SOON)

    with collected_by_hand(), thread(drop):
        assert entered.wait(SOON)
        generator = items(shared, mine)
        permit = next(generator)
        gc.collect()
        assert [each.holder for each in shared.holders()] == [permit.holder]
        generator.close()
        assert occupied(store) == 0
        to_end.set()


def test_an_exit_stack_that_moves_its_blocks(store: MemoryStore) -> None:
    """Each context is a copy of the one with the block."""
    shared = Semaphore("api", 2, store=store, timeout=SOON)
    with shared as outer:
        stack = ExitStack()
        copy_context().run(stack.enter_context, shared)
        moved = stack.pop_all()
        del stack
        copy_context().run(moved.close)
        assert [held.holder for held in shared.holders()] == [outer.holder]
    assert occupied(store) == 0


@pytest.mark.parametrize("form", BY_HAND)
def test_what_is_entered_in_a_context_that_is_gone(store: MemoryStore, form: str) -> None:
    """Starlette runs the steps of a plain dependency so. It leaves with a permit that no other context has."""
    shared = Semaphore("api", 3, store=store, timeout=SOON)
    inside, to_end = list[Permit](), threading.Event()

    def hold() -> None:
        enter, leave = by_hand(shared, form)
        inside.append(enter())
        to_end.wait(SOON)
        shared.extend(inside[0])
        leave()

    with thread(hold):
        wait_until(lambda: inside, SOON)
        pairs = [by_hand(shared, form), by_hand(shared, form)]
        for enter, _ in pairs:
            copy_context().run(enter)
        assert occupied(store) == 3
        for _, leave in pairs:
            copy_context().run(leave)
        assert [held.holder for held in shared.holders()] == [inside[0].holder]
        to_end.set()
    assert occupied(store) == 0


@pytest.mark.parametrize("form", BY_HAND)
def test_what_is_entered_within_a_block(store: MemoryStore, form: str) -> None:
    """Its contexts are copies of the one that has the block."""
    shared = Semaphore("api", 2, store=store, timeout=SOON)
    with shared as outer:
        enter, leave = by_hand(shared, form)
        copy_context().run(enter)
        copy_context().run(leave)
        assert [held.holder for held in shared.holders()] == [outer.holder]
    assert occupied(store) == 0


def test_a_client_around_a_block(store: MemoryStore) -> None:
    """It is closed within the block, which keeps its own permit."""
    shared = Semaphore("api", 4, store=store, timeout=SOON)
    with shared as outer:
        clients = [Client(shared), Client(shared)]
        for client in clients:
            client.__enter__()
        with shared as inner:
            for client in clients:
                client.close()
            shared.extend(inner)
            assert [held.holder for held in shared.holders()] == [outer.holder, inner.holder]
        assert [held.holder for held in shared.holders()] == [outer.holder]
    assert occupied(store) == 0


def test_an_exit_stack_around_a_block(store: MemoryStore) -> None:
    """It is closed within the block, which keeps its own permit."""
    shared = Semaphore("api", 4, store=store, timeout=SOON)
    with shared as outer, ExitStack() as stack:
        stack.enter_context(shared)
        stack.enter_context(shared)
        with shared as inner:
            stack.close()
            shared.extend(inner)
            assert [held.holder for held in shared.holders()] == [outer.holder, inner.holder]
        assert [held.holder for held in shared.holders()] == [outer.holder]
    assert occupied(store) == 0


def test_generators_that_are_closed_in_another_thread(store: MemoryStore) -> None:
    """This context keeps nothing of them, and takes none of their blocks for its own."""
    shared = Semaphore("api", 2, store=store, timeout=SOON)

    def items() -> Generator[None, None, None]:
        with shared:
            yield

    for _ in range(5):
        generator = items()
        next(generator)
        with thread(generator.close):
            pass
    stack = ExitStack()
    copy_context().run(stack.enter_context, shared)
    copy_context().run(stack.close)
    assert occupied(store) == 0
    with shared:
        assert len(with_blocks._entered.get()) == 1
