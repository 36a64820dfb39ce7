"""A loop that is closed while its coroutines wait or hold a permit: only the garbage collector ends them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack
from typing import Any, Literal

import pytest

from celery_semaphore import AsyncSemaphore, Semaphore, async_semaphore
from celery_semaphore.core import lease
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.permit import Permit
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import SOON, collected_by_hand, known, occupied, waiting
from tests.support.process import wait_until

from .clients import Client
from .loops import LOOPS, left, soon_nothing_is_left, until

ONE = Claim("api", None, 1)
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def closed_with(body: Callable[[], Coroutine[Any, Any, Any]], kind: str, is_there: Any) -> None:
    """Close a loop while a task of it runs this body."""
    factory = {"asyncio": asyncio, "uvloop": pytest.importorskip("uvloop")}[kind]
    loop = factory.new_event_loop()

    async def main() -> None:
        tasks = [asyncio.create_task(body())]
        await until(is_there)
        del tasks

    loop.run_until_complete(main())
    loop.close()


@pytest.mark.parametrize("kind", LOOPS)
@pytest.mark.parametrize("on_lost", [None, "cancel"])
@pytest.mark.parametrize("form", ["in line", "with", "permit"])
def test_nothing_is_left(
    store: MemoryStore, form: str, on_lost: Literal["cancel"] | None, kind: str
) -> None:
    api = AsyncSemaphore("api", 1, store=store, on_lost=on_lost)
    if form == "in line":
        store.acquire([ONE], "other")

    async def body() -> None:
        if form == "with":
            async with api:
                await asyncio.sleep(99)
        async with api.permit():
            await asyncio.sleep(99)

    closed_with(body, kind, lambda: waiting(store) if form == "in line" else occupied(store))
    gc.collect()
    store.release("other", [ONE])
    soon_nothing_is_left(store)


@pytest.mark.parametrize("kind", LOOPS)
def test_a_release_in_a_finally_is_made(store: MemoryStore, kind: str) -> None:
    api = AsyncSemaphore("api", 1, store=store)

    async def body() -> None:
        permit = await api.acquire()
        try:
            await asyncio.sleep(99)
        finally:
            await api.release(permit)

    closed_with(body, kind, lambda: occupied(store))
    gc.collect()
    soon_nothing_is_left(store)


@pytest.mark.filterwarnings("ignore:unclosed")
@pytest.mark.parametrize("on_lost", [None, "cancel", print])
def test_a_loop_that_is_dropped_without_a_close(store: MemoryStore, on_lost: Any) -> None:
    """Nothing of ours keeps it, whether its tasks hold or wait."""
    api = AsyncSemaphore("api", 1, store=store, on_lost=on_lost)

    def use() -> None:
        async def call() -> None:
            async with api:
                await asyncio.sleep(99)

        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(call()) for _ in range(3)]
        loop.run_until_complete(until(lambda: waiting(store) == len(tasks) - 1))

    use()
    wait_until(lambda: gc.collect() >= 0 and not left(store), SOON, "it was collected")


def test_a_closed_loop_takes_no_turn(store: MemoryStore) -> None:
    """The next in line does not wait for the take-ups of those that are gone."""
    api, here = AsyncSemaphore("api", 1, store=store), Semaphore("api", 1, store=store)
    permit = here.acquire()
    gc.disable()  # else it may find the first before the last is in line
    try:
        for n in range(3):
            # It has read that it waits: else the loop drops it as it is closed.
            closed_with(api.acquire, "asyncio", lambda n=n: known(store) > n)
    finally:
        gc.enable()
    gc.collect()
    here.release(permit)
    here.release(here.acquire(timeout=1.0))
    soon_nothing_is_left(store)


@pytest.mark.parametrize("last", ["awaits", "raises", "is a generator"])
def test_a_body_that_does_more_while_it_is_closed(
    last: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its block may never be left; the permit is renewed no more."""
    monkeypatch.setattr(lease, "RETRY_DELAY_S", 0.05)
    store = MemoryStore(StoreOptions(lease=1.0))
    api = AsyncSemaphore("api", 1, store=store)

    async def body() -> None:
        async with api.permit():
            try:
                await asyncio.sleep(99)
            finally:
                if last == "raises":
                    raise LookupError
                await asyncio.sleep(0)

    @api
    async def items() -> AsyncIterator[int]:
        await asyncio.sleep(99)
        yield 1

    async def iterate() -> None:
        async for _ in items():
            pass

    ended = iterate if last == "is a generator" else body
    closed_with(ended, "asyncio", lambda: occupied(store))
    gc.collect()
    soon_nothing_is_left(store, 6.0)


def test_a_block_that_is_closed_after_it_was_forgotten(store: MemoryStore) -> None:
    """Its loop is closed, so that the keeper renews it no more; then its generator is."""
    api = AsyncSemaphore("api", 1, store=store)

    async def items() -> AsyncIterator[int]:
        async with api.permit():
            yield 1

    generator: Any = items()
    loop = asyncio.new_event_loop()
    loop.run_until_complete(generator.__anext__())
    loop.close()
    held_permits = held_permits_in(store)
    held_permits._keeper._due = 0.0  # it renews at once
    wait_until(lambda: not held_permits._held, SOON, "it is forgotten")
    assert occupied(store)
    with pytest.raises(StopIteration):
        generator.aclose().send(None)
    soon_nothing_is_left(store)


def test_a_permit_by_hand_outlives_its_loop() -> None:
    """It has no body that ended: another loop may release it."""
    store = MemoryStore(StoreOptions(lease=1.0))
    api = AsyncSemaphore("api", 1, store=store)
    permit = asyncio.run(api.acquire())

    async def later() -> None:
        await asyncio.sleep(1.5)
        await api.extend(permit)
        await api.release(permit)

    asyncio.run(later())
    soon_nothing_is_left(store)


@pytest.mark.parametrize("ends", ["with its task", "in another task"])
def test_a_generator_that_is_not_run_to_its_end(store: MemoryStore, ends: str) -> None:
    """Its block was entered by a task that has ended when it is closed, by another task or by the end of the loop."""
    api, kept = AsyncSemaphore("api", 1, store=store), list[AsyncIterator[int]]()

    async def items() -> AsyncIterator[int]:
        async with api:
            yield 1
            yield 2

    async def main() -> None:
        kept.append(items())
        if ends == "with its task":
            assert await anext(kept[0]) == 1
        else:
            assert await asyncio.create_task(anext(kept[0])) == 1  # type: ignore[arg-type]
            await kept[0].aclose()  # type: ignore[attr-defined]
            await until(lambda: store.snapshot("api").occupied == 0)

    asyncio.run(main())
    kept.clear()
    gc.collect()
    soon_nothing_is_left(store)


def test_a_generator_that_is_collected_while_its_task_goes_on(store: MemoryStore) -> None:
    """The loop closes it in a task of its own."""
    api = AsyncSemaphore("api", 1, store=store)

    async def items() -> AsyncIterator[int]:
        async with api:
            yield 1
            yield 2

    async def enters(over: asyncio.Event) -> None:
        cycle: list[Any] = [items()]
        cycle.append(cycle)
        assert await anext(cycle[0]) == 1
        del cycle
        await over.wait()

    async def main() -> None:
        over = asyncio.Event()
        task = asyncio.create_task(enters(over))
        await until(lambda: store.snapshot("api").occupied == 1)
        gc.collect()
        async with asyncio.timeout(10):
            await api.release(await api.acquire())
        assert not task.done()
        over.set()
        await task

    asyncio.run(main())


def test_each_of_two_generators_leaves_with_its_own_permit(store: MemoryStore) -> None:
    """They are run in turn, in one task; the first is left first."""
    api = AsyncSemaphore("api", 2, store=store)

    async def items() -> AsyncIterator[Permit]:
        async with api as permit:
            yield permit

    async def main() -> None:
        first, second = items(), items()
        mine, other = await anext(first), await anext(second)
        await first.aclose()  # type: ignore[attr-defined]
        await until(lambda: store.snapshot("api").occupied == 1)  # it releases in the background
        assert {held.holder for held in await api.holders()} == {other.holder} != {mine.holder}
        await second.aclose()  # type: ignore[attr-defined]

    asyncio.run(main())
    soon_nothing_is_left(store)


def test_a_block_that_is_left_elsewhere_is_an_error(store: MemoryStore) -> None:
    """What is entered and left by hand has two frames, so the task alone tells which block is meant."""
    api = AsyncSemaphore("api", 1, store=store)

    async def enter() -> None:
        await api.__aenter__()

    async def main() -> None:
        await asyncio.create_task(enter())
        with pytest.raises(RuntimeError, match="left in the task in which it was entered"):
            await api.__aexit__(None, None, None)
        assert await api.available() == 1  # and it is left

    asyncio.run(main())


@pytest.mark.parametrize("is_moved", [False, True])
def test_a_stack_leaves_in_any_task_what_it_entered(store: MemoryStore, *, is_moved: bool) -> None:
    """The tasks around it have blocks of their own, and some have a copy of the context of another."""
    api = AsyncSemaphore("api", 9, store=store)

    async def enter() -> tuple[str, AsyncExitStack]:
        stack = AsyncExitStack()
        permit = await stack.enter_async_context(api)
        return permit.holder, stack.pop_all() if is_moved else stack

    async def main() -> None:
        entered = [await enter(), await asyncio.create_task(enter())]
        async with api as mine:
            entered += [await asyncio.create_task(enter()), await enter()]
            for at in (1, 2, 0, 0):
                holder, stack = entered.pop(at)
                await asyncio.create_task(stack.aclose())
                held = {each.holder for each in await api.holders()}
                assert held == {mine.holder, *(each for each, _ in entered)}
                assert holder not in held

    asyncio.run(main())
    soon_nothing_is_left(store)


def test_a_block_around_a_generator_that_is_forgotten(store: MemoryStore) -> None:
    """The collector closes it in a copy of the task's context."""
    two = AsyncSemaphore("api", 2, store=store)

    async def items() -> AsyncIterator[int]:
        async with two:
            yield 1
            yield 2

    async def main() -> None:
        async with two:
            async for _ in items():
                break
            gc.collect()
            await until(lambda: occupied(store) == 1)
        assert occupied(store) == 0

    asyncio.run(main())
    soon_nothing_is_left(store)


@pytest.fixture
def _uncollected() -> Iterator[None]:
    with collected_by_hand():
        yield


async def hold(
    api: AsyncSemaphore, form: str, body: Callable[[Permit], Coroutine[Any, Any, Any]]
) -> None:
    """Enter and leave in one of the ways that a semaphore itself allows."""
    if form == "stack":
        async with AsyncExitStack() as stack:
            await body(await stack.enter_async_context(api))
    elif form == "closed stack":
        stack = AsyncExitStack()
        try:
            await body(await stack.enter_async_context(api))
        finally:
            await stack.aclose()
    else:
        async with Client(api) if form == "client" else api as permit:
            await body(permit)


async def items(api: AsyncSemaphore, form: str) -> AsyncIterator[Permit]:
    """Enter and leave in the same ways, in a generator."""
    if form == "stack":
        async with AsyncExitStack() as stack:
            yield await stack.enter_async_context(api)
    elif form == "closed stack":
        stack = AsyncExitStack()
        try:
            yield await stack.enter_async_context(api)
        finally:
            await stack.aclose()
    else:
        async with Client(api) if form == "client" else api as permit:
            yield permit


HELD_BY = ["with", "stack", "closed stack"]


@pytest.mark.usefixtures("_uncollected")
@pytest.mark.parametrize("mine", HELD_BY)
@pytest.mark.parametrize("closed", HELD_BY)
def test_a_block_that_is_collected_within_one_of_another_task(
    store: MemoryStore, closed: str, mine: str
) -> None:
    """The keeper has forgotten the one of the closed loop; the other one stays entered."""
    api, held_permits = AsyncSemaphore("api", 2, store=store), held_permits_in(store)
    closed_with(
        lambda: hold(api, closed, lambda _: asyncio.sleep(99)), "asyncio", lambda: occupied(store)
    )
    held_permits._keeper._due = 0.0  # it renews at once
    wait_until(lambda: not held_permits._held, SOON, "it is forgotten")

    async def body(permit: Permit) -> None:
        assert occupied(store) == 2
        gc.collect()
        await until(lambda: occupied(store) == 1)
        assert [each.holder for each in await api.holders()] == [permit.holder]

    asyncio.run(hold(api, mine, body))
    soon_nothing_is_left(store)
    assert not api._blocks


@pytest.mark.usefixtures("_uncollected")
def test_a_coroutine_that_is_collected_leaves_no_block_of_another_task(store: MemoryStore) -> None:
    """Where its place does not tell which block is its own."""
    api = AsyncSemaphore("api", 2, store=store)

    async def body() -> None:
        await api.__aenter__()
        async with AsyncExitStack() as stack:
            stack.push_async_exit(api)
            await asyncio.sleep(99)

    async def main() -> None:
        async with api as permit:
            gc.collect()
            assert permit.holder in {each.holder for each in await api.holders()}

    closed_with(body, "asyncio", lambda: occupied(store))
    asyncio.run(main())


def test_a_generator_without_its_permit_that_is_collected_within_another_block(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RETRY_DELAY_S", 0.05)
    api, keeper, closed = (
        AsyncSemaphore("api", 1, store=store),
        held_permits_in(store)._keeper,
        list[str](),
    )

    async def items() -> AsyncIterator[Permit]:
        try:
            async with api as permit:
                yield permit
        finally:
            closed.append("closed")

    async def main() -> None:
        kept = [items()]
        lost: Permit = await asyncio.create_task(anext(kept[0]))  # type: ignore[arg-type]
        store.release(lost.holder, [ONE])  # as an operator does
        keeper._due = 0.0
        await until(lambda: not keeper._kept)
        async with api as mine:
            kept.clear()
            gc.collect()
            await until(lambda: closed)
            assert [each.holder for each in await api.holders()] == [mine.holder]

    asyncio.run(main())
    soon_nothing_is_left(store)


@pytest.mark.parametrize("how", ["closed", "closed elsewhere", "run to its end"])
@pytest.mark.parametrize("form", [*HELD_BY, "client"])
def test_a_generator_that_ends_while_another_block_is_entered(
    store: MemoryStore, form: str, how: str
) -> None:
    """In its task, or in one that has a copy of its context."""
    api = AsyncSemaphore("api", 2, store=store)

    async def main() -> None:
        generator = items(api, form)
        await anext(generator)
        async with api as mine:
            if how == "run to its end":
                assert [each async for each in generator] == []
            else:
                closing: Any = generator.aclose()  # type: ignore[attr-defined]
                await (asyncio.create_task(closing) if how == "closed elsewhere" else closing)
            await until(lambda: occupied(store) == 1)
            assert [each.holder for each in await api.holders()] == [mine.holder]

    asyncio.run(main())
    soon_nothing_is_left(store)


@pytest.mark.usefixtures("_uncollected")
@pytest.mark.parametrize("mine", HELD_BY)
@pytest.mark.parametrize("dropped", HELD_BY)
def test_a_generator_that_is_collected_in_another_task(
    store: MemoryStore, dropped: str, mine: str
) -> None:
    """The loop closes it in a copy of the context of the task that collects, and its own task runs on."""
    api = AsyncSemaphore("api", 2, store=store)

    async def drop(to_end: asyncio.Event) -> None:
        cycle: list[Any] = [items(api, dropped)]
        cycle.append(cycle)  # so that the collector alone closes it
        await anext(cycle[0])
        del cycle
        await to_end.wait()

    async def body(permit: Permit) -> None:
        await until(lambda: occupied(store) == 2)
        gc.collect()
        await until(lambda: occupied(store) == 1)
        assert [each.holder for each in await api.holders()] == [permit.holder]

    async def main() -> None:
        to_end = asyncio.Event()
        dropping = asyncio.create_task(drop(to_end))
        await hold(api, mine, body)
        assert occupied(store) == 0
        to_end.set()
        await dropping

    asyncio.run(main())
    soon_nothing_is_left(store)
    assert not api._blocks


def test_a_context_keeps_no_block_that_was_left_elsewhere(store: MemoryStore) -> None:
    """A generator that is not run to its end is closed in another task."""
    api = AsyncSemaphore("api", 9, store=store)

    async def items() -> AsyncIterator[int]:
        async with api:
            yield 1

    async def main() -> None:
        for _ in range(5):
            async for _ in items():
                break
            gc.collect()
            await until(lambda: not occupied(store))
        async with api:
            assert len(async_semaphore._entered.get()) == 1
        assert not async_semaphore._entered.get()

    asyncio.run(main())
