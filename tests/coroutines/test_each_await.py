"""A cancellation at each await of each call: before its answer came, and when it came but was not read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from celery_semaphore import AsyncSemaphore
from celery_semaphore.core import acquisition, loop_calls
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.held_permits import held_permits_in
from celery_semaphore.core.refusal import Answer, Refusal
from celery_semaphore.errors import StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, Asked, LostAnswers, known
from tests.support.process import wait_until

from .loops import run_in, soon_nothing_is_left, until

ONE = Claim("api", None, 1)
# A store that is not checked yet has one await more, the first time: such tests make a store for each strike.
MOMENTS = ["at once", "under way", "answered", "closed", "closed later"]


class Struck:
    """Awaits a coroutine, and ends it at its await number ``step``, as a task would at this moment.

    * at once: before the call has begun
    * under way: when a thread may have begun it
    * answered: its future has the answer, and the coroutine has not read it
    * closed: its loop is gone, and another one runs when the collector closes the coroutine
    * closed later: none runs
    """

    def __init__(self, coroutine: Any, step: int, moment: str) -> None:
        self.coroutine, self.left, self.moment = coroutine, step, moment
        self.struck = False

    def __await__(self) -> Generator[Any, Any, Any]:
        resume: Callable[[], Any] = partial(self.coroutine.send, None)
        while True:
            try:
                future = resume()
            except StopIteration as end:
                return end.value
            self.left -= 1
            if self.left < 0:
                return (yield from self._strike(future))
            try:
                yield future
            except Exception as error:  # noqa: BLE001 - what the future raises
                resume = partial(self.coroutine.throw, error)
            else:
                resume = partial(self.coroutine.send, None)

    def _strike(self, future: Any) -> Generator[Any, Any, Any]:
        self.struck = True
        if self.moment == "under way":
            yield from asyncio.sleep(0.01).__await__()
        elif self.moment == "answered":
            with suppress(StoreUnavailable):
                yield future
        if self.moment == "closed":
            self.coroutine.close()
        if self.moment in {"closed", "closed later"}:
            raise asyncio.CancelledError
        if future is not None:
            future.cancel()
        return self.coroutine.throw(asyncio.CancelledError())


def strikes(call: Callable[[], Awaitable[Any]], moment: str) -> Iterator[int]:
    """Strike one call after the other, each at a later await, until one comes to its end."""
    run, step, last = run_in("asyncio"), 0, list[Struck]()

    async def struck() -> bool:
        one = Struck(call(), step, moment)
        last[:] = [one]
        try:
            await one
        except asyncio.CancelledError:
            assert one.struck
        return one.struck

    while run(struck()):
        with suppress(RuntimeError):  # `async with semaphore` finds that its task has ended
            last[0].coroutine.close()
        yield step
        step += 1
    assert step > 0


@pytest.fixture(autouse=True)
def _hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acquisition, "RETRY_DELAY_S", 0.01)


@pytest.fixture
def checked(store: MemoryStore) -> MemoryStore:
    held_permits_in(store).check()
    return store


class LetGo(Asked):
    """Ends the other holder's permit when the call was refused: it is granted while it waits."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        super().__init__(store)

    def answered(self, answer: Answer) -> Answer:
        if isinstance(answer, Refusal):
            self.store.release("other", [ONE])
        return answer


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_acquire(checked: MemoryStore, moment: str) -> None:
    store = checked
    api = AsyncSemaphore("api", 1, store=store)
    for _ in strikes(api.acquire, moment):
        soon_nothing_is_left(store)
    (held,) = store.snapshot("api").holders
    assert list(held_permits_in(store)._held) == [held.holder], "the last one has its permit"


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_acquire_that_waits(moment: str) -> None:
    """A store of its own for each: it was granted, or is granted when it has gone."""
    stores: list[MemoryStore] = []

    async def acquire() -> Any:
        stores.append(MemoryStore())
        stores[-1].acquire([ONE], "other")
        LetGo(stores[-1])
        return await AsyncSemaphore("api", 1, store=stores[-1]).acquire()

    steps = 0
    for _ in strikes(acquire, moment):
        stores[-1].release("other", [ONE])
        soon_nothing_is_left(stores[-1])
        steps += 1
    assert steps > 2, "check, acquire, wait, acquire"
    for store in stores:
        held_permits_in(store).close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_acquire_that_waits_on(checked: MemoryStore, moment: str) -> None:
    """Nothing is free: each strike finds it in line."""
    store = checked
    api = AsyncSemaphore("api", 1, store=store, timeout=0.1)
    store.acquire([ONE], "other 0")

    async def acquire() -> None:
        with pytest.raises(Exception, match="no permit"):
            await api.acquire()

    for step in strikes(acquire, moment):
        store.release(f"other {step}", [ONE])
        soon_nothing_is_left(store)
        store.acquire([ONE], f"other {step + 1}")
    wait_until(lambda: store.snapshot("api").waiting == 0, SOON, "it left the line")


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_acquire_whose_answer_is_lost(moment: str) -> None:
    stores: list[MemoryStore] = []

    async def acquire() -> Any:
        stores.append(MemoryStore())
        LostAnswers(stores[-1], times=2)
        return await AsyncSemaphore("api", 1, store=stores[-1]).acquire()

    for _ in strikes(acquire, moment):
        soon_nothing_is_left(stores[-1])
    for store in stores:
        held_permits_in(store).close()


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_release(checked: MemoryStore, moment: str) -> None:
    """Cancelled at whatever moment, it happens."""
    store = checked
    api = AsyncSemaphore("api", 1, store=store)

    async def acquire_and_release() -> None:
        await api.release(await api.acquire())

    steps = 0
    for _ in strikes(acquire_and_release, moment):
        soon_nothing_is_left(store)
        steps += 1
    assert steps == 2, "acquire, release"
    soon_nothing_is_left(store)


@pytest.mark.parametrize("form", ["a task", "a timeout", "a group", "closed"])
def test_a_release_that_has_not_begun(store: MemoryStore, form: str) -> None:
    """Its task is cancelled before the first step of it."""
    api = AsyncSemaphore("api", 1, store=store)

    async def fail() -> None:
        raise LookupError

    async def main() -> None:
        permit = await api.acquire()
        if form == "a task":
            task = asyncio.create_task(api.release(permit))
            task.cancel()
            await asyncio.wait([task])
        elif form == "a timeout":
            with suppress(TimeoutError):
                await asyncio.wait_for(api.release(permit), 0)
        elif form == "a group":
            with suppress(ExceptionGroup):
                async with asyncio.TaskGroup() as group:
                    group.create_task(fail())
                    await asyncio.sleep(0)
                    group.create_task(api.release(permit))
        else:
            api.release(permit).close()
        await until(lambda: not store.snapshot("api").occupied)

    run_in("asyncio")(main())
    soon_nothing_is_left(store)


# With its loop asyncio closes no generator that awaits: its lease ends it, see test_closed_loops.
BLOCKS = [
    (form, moment)
    for form in ("with", "permit", "decorator", "generator")
    for moment in MOMENTS
    if (form, moment) != ("generator", "closed later")
]


@pytest.mark.parametrize(("form", "moment"), BLOCKS)
def test_a_block(checked: MemoryStore, form: str, moment: str) -> None:
    store = checked
    api, inside = AsyncSemaphore("api", 1, store=store), list[int]()

    async def body() -> None:
        inside.append(store.snapshot("api").occupied)
        await asyncio.sleep(0)

    async def by_with() -> None:
        async with api:
            await body()

    async def by_permit() -> None:
        async with api.permit(timeout=5):
            await body()

    @api
    async def generator() -> Any:
        await body()
        yield 1
        await body()
        yield 2

    async def by_generator() -> None:
        assert [item async for item in generator()] == [1, 2]

    forms = {
        "with": by_with,
        "permit": by_permit,
        "decorator": api(body),
        "generator": by_generator,
    }
    steps = 0
    for _ in strikes(forms[form], moment):
        soon_nothing_is_left(store)
        steps += 1
    assert steps >= 3, "acquire, body, release"
    soon_nothing_is_left(store)
    assert set(inside) == {1}


def test_the_instant_after_the_future_got_its_permit(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task is cancelled before it wakes, and cannot know of the answer."""
    api, deliver = AsyncSemaphore("api", 1, store=store), loop_calls._deliver
    held_permits_in(store).check()  # the first answer is that of the acquire

    async def main() -> None:
        task = asyncio.create_task(api.acquire())

        def deliver_and_cancel(some: Any) -> None:
            deliver(some)
            assert task.cancel()

        monkeypatch.setattr(loop_calls, "_deliver", deliver_and_cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run_in("asyncio")(main())
    soon_nothing_is_left(store)


def test_nothing_is_asked_for_who_was_cancelled(store: MemoryStore) -> None:
    api = AsyncSemaphore("api", 1, store=store)
    store.acquire([ONE], "other")

    async def main() -> None:
        task = asyncio.create_task(api.acquire())
        await until(lambda: known(store))
        task.cancel()
        await asyncio.wait([task])
        assert not known(store)

    run_in("asyncio")(main())
