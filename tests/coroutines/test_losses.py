"""What happens about a permit that is lost while its body runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import pytest

from celery_semaphore import AsyncSemaphore, PermitLost
from celery_semaphore.core import lease
from celery_semaphore.core.claim import Claim
from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError
from celery_semaphore.stores.memory import MemoryStore
from celery_semaphore.stores.options import StoreOptions
from tests.support.calling import SOON

from .loops import Run, run_in, soon_nothing_is_left, until


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryStore]:
    monkeypatch.setattr(lease, "RETRY_DELAY_S", 0.05)
    store = MemoryStore(StoreOptions(lease=1.0))
    yield store
    soon_nothing_is_left(store)


def lose(store: MemoryStore) -> None:
    """Let an operator release what is held."""
    (held,) = store.snapshot("api").holders
    store.release(held.holder, [Claim("api", None, 1)])


def test_a_function_is_called_in_the_loop(store: MemoryStore, run: Run[Any]) -> None:
    lost: list[tuple[Permit, threading.Thread]] = []

    def on_lost(permit: Permit) -> None:
        asyncio.get_running_loop()
        lost.append((permit, threading.current_thread()))

    api = AsyncSemaphore("api", 1, store=store, on_lost=on_lost)

    async def main() -> None:
        permit = await api.acquire()
        lose(store)
        await until(lambda: lost)
        assert lost == [(permit, threading.current_thread())]
        await api.release(permit)

    run(main())


def test_a_coroutine_function_becomes_a_task(store: MemoryStore, run: Run[Any]) -> None:
    ended: list[Permit] = []

    async def on_lost(permit: Permit) -> None:
        await asyncio.sleep(0.01)
        ended.append(permit)

    api = AsyncSemaphore("api", 1, store=store, on_lost=on_lost)

    async def main() -> None:
        async with api as permit:
            lose(store)
            await until(lambda: ended)
        assert ended == [permit]

    run(main())


def test_a_callback_that_fails_is_logged(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    def on_lost(_: Permit) -> None:
        raise LookupError("mine")

    api = AsyncSemaphore("api", 1, store=store, on_lost=on_lost)

    async def main() -> None:
        async with api:
            lose(store)
            await until(lambda: "LookupError: mine" in caplog.text)

    run_in("asyncio")(main())


@pytest.mark.parametrize("form", ["with", "permit", "decorator"])
def test_a_body_is_cancelled(store: MemoryStore, run: Run[Any], form: str) -> None:
    """What ends it is the loss, and no cancellation stays with its task."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def body() -> None:
        lose(store)
        await asyncio.sleep(SOON)

    async def enter() -> None:
        if form == "decorator":
            await api(body)()
        elif form == "with":
            async with api:
                await body()
        else:
            async with api.permit():
                await body()

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(PermitLost, match="the lease ended") as caught:
            await enter()
        assert isinstance(caught.value.__cause__, asyncio.CancelledError)
        assert task.cancelling() == 0
        await asyncio.sleep(0)  # it runs on

    run(main())


def test_a_cancellation_from_outside_stays_one(store: MemoryStore, run: Run[Any]) -> None:
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def body() -> None:
        async with api:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(SOON)

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(body())

    run(main())


def test_both_at_once(store: MemoryStore, run: Run[Any]) -> None:
    """A cancellation from outside comes in the step in which the loss does."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")
    entered = list[Any]()

    async def body() -> None:
        block = api.permit()
        async with block as permit:
            entered.append((block, permit))
            await asyncio.sleep(SOON)

    async def main() -> None:
        task = asyncio.create_task(body())
        await until(lambda: entered)
        block, permit = entered[0]
        block._cancellation._cancel(permit)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    run(main())


def test_within_a_timeout(store: MemoryStore, run: Run[Any]) -> None:
    """Each takes its own cancellation back."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def lost_inside() -> None:
        async with asyncio.timeout(SOON):
            async with api:
                lose(store)
                await asyncio.sleep(SOON)

    async def timed_out() -> None:
        async with asyncio.timeout(0.05):
            async with api:
                await asyncio.sleep(SOON)

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        with pytest.raises(PermitLost):
            await lost_inside()
        assert task.cancelling() == 0
        with pytest.raises(TimeoutError):
            await timed_out()
        assert task.cancelling() == 0

    run(main())


def test_a_body_that_ended_before_it_was_told(store: MemoryStore) -> None:
    """The cancellation meets the release."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def main() -> None:
        task = asyncio.current_task()
        assert task is not None
        block = api.permit()
        permit = await block.__aenter__()
        assert block._cancellation is not None
        block._cancellation._cancel(permit)
        with suppress(PermitLost):  # 3.11 and 3.12 deliver it; later ones take it back
            await block.__aexit__(None, None, None)
        assert task.cancelling() == 0
        await asyncio.sleep(0)

    run_in("asyncio")(main())


def test_a_body_that_swallows_it_runs_on(store: MemoryStore) -> None:
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def main() -> str:
        async with api:
            lose(store)
            try:
                await asyncio.sleep(SOON)
            except asyncio.CancelledError:
                return "ran on"
        return "?"

    assert run_in("asyncio")(main()) == "ran on"


def test_a_loss_after_the_block_cancels_nothing(store: MemoryStore) -> None:
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def main() -> None:
        block = api.permit()
        async with block as permit:
            cancellation = block._cancellation
        assert cancellation is not None
        cancellation._cancel(permit)
        await asyncio.sleep(0)

    run_in("asyncio")(main())


def test_acquire_has_no_body(store: MemoryStore) -> None:
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")
    with pytest.raises(ConfigurationError, match="acquire\\(\\) has none: use `async with`"):
        asyncio.run(api.acquire())


@pytest.mark.parametrize("on_lost", ["terminate", 5, True])
def test_what_it_cannot_do(store: MemoryStore, on_lost: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"on_lost={on_lost!r} must be a function"):
        AsyncSemaphore("api", 1, store=store, on_lost=on_lost)


def test_a_generator_has_no_task_to_cancel(store: MemoryStore) -> None:
    """While it is suspended, that would be whatever its caller does."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def items() -> AsyncIterator[int]:
        yield 1

    with pytest.raises(ConfigurationError, match="an async generator has none of its own"):
        api(items)


def test_a_block_that_was_entered_by_a_task_that_has_ended(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing can be cancelled: the log says so at once, and the way out fails."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def main() -> None:
        block = api.permit()
        await asyncio.create_task(block.__aenter__())
        lose(store)
        await until(lambda: "its body is not cancelled" in caplog.text)
        with pytest.raises(PermitLost):
            await block.__aexit__(None, None, None)

    run_in("asyncio")(main())


def test_a_block_that_another_task_leaves(store: MemoryStore) -> None:
    """The task that entered it was cancelled; the one that leaves hears of the loss, and keeps its own error."""
    api = AsyncSemaphore("api", 2, store=store, on_lost="cancel")

    async def main() -> None:
        blocks = [api.permit(), api.permit()]

        async def enter() -> None:
            for block, permit in [(each, await each.__aenter__()) for each in blocks]:
                assert block._cancellation is not None
                block._cancellation._cancel(permit)
            await asyncio.sleep(SOON)

        entering = asyncio.create_task(enter())
        await asyncio.wait([entering])
        assert entering.cancelled()
        with pytest.raises(PermitLost):
            await blocks[0].__aexit__(None, None, None)
        await blocks[1].__aexit__(LookupError, LookupError(), None)

    run_in("asyncio")(main())


def test_a_loss_that_is_told_twice(store: MemoryStore, run: Run[Any]) -> None:
    """No cancellation stays with its task."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def main() -> None:
        task, block = asyncio.current_task(), api.permit()
        assert task is not None

        async def enter() -> None:
            async with block as permit:
                assert block._cancellation is not None
                for _ in range(2):
                    block._cancellation._cancel(permit)
                await asyncio.sleep(SOON)

        with pytest.raises(PermitLost):
            await enter()
        assert task.cancelling() == 0

    run(main())


def test_cancelled_from_outside_while_it_is_left(store: MemoryStore) -> None:
    """The loss is that of a body that has ended, so the other cancellation counts."""
    api = AsyncSemaphore("api", 1, store=store, on_lost="cancel")

    async def body() -> None:
        block = api.permit()
        permit, task = await block.__aenter__(), asyncio.current_task()
        assert block._cancellation is not None
        assert task is not None
        block._cancellation._cancel(permit)
        asyncio.get_running_loop().call_soon(task.cancel)
        await block.__aexit__(None, None, None)

    async def main() -> None:
        task = asyncio.create_task(body())
        await asyncio.wait([task])
        assert task.cancelled()

    run_in("asyncio")(main())
