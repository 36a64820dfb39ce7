"""AsyncSemaphore: what its forms promise, and what users write wrong."""

from __future__ import annotations

import asyncio
import functools
import gc
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.background import BackgroundTask

from celery_semaphore import AsyncSemaphore, PermitLost, Semaphore, SemaphoreError, SemaphoreTimeout
from celery_semaphore.core.permit import Permit
from celery_semaphore.errors import ConfigurationError, StoreUnavailable
from celery_semaphore.stores.memory import MemoryStore
from tests.support.calling import SOON, Failing, LostAnswers, known, occupied

from .loops import Run, run_in, soon_nothing_is_left, until


def run(main: Any) -> Any:
    return run_in("asyncio")(main)


def test_by_hand(api: AsyncSemaphore, store: MemoryStore) -> None:
    async def main() -> None:
        permit = await api.acquire()
        assert [each.holder for each in await api.holders()] == [permit.holder]
        assert await api.available() == 0
        with pytest.raises(SemaphoreTimeout, match="1 of 1 in use"):
            await api.acquire(timeout=0)
        await api.extend(permit)
        await api.release(permit)
        assert occupied(store) == 0, "what follows sees it free"
        await api.release(permit)
        with pytest.raises(PermitLost):
            await api.extend(permit)

    run(main())


def test_a_release_is_called_in_the_loop(api: AsyncSemaphore, store: MemoryStore) -> None:
    """Starlette calls what is no coroutine function in a thread."""

    async def main() -> None:
        await BackgroundTask(api.release, await api.acquire())()
        assert occupied(store) == 0

    assert asyncio.iscoroutinefunction(api.release)
    run(main())


@pytest.mark.parametrize("called", ["in no loop", "in another loop"])
def test_a_release_that_is_awaited_elsewhere(
    api: AsyncSemaphore, store: MemoryStore, called: str
) -> None:
    async def release(permit: Permit) -> Coroutine[Any, Any, None]:
        return api.release(permit)

    permit = run(api.acquire())
    run(api.release(permit) if called == "in no loop" else run(release(permit)))
    assert occupied(store) == 0
    soon_nothing_is_left(store)


def test_a_block_in_a_block(store: MemoryStore) -> None:
    two = AsyncSemaphore("api", 2, store=store, timeout=0)

    async def main() -> None:
        async with two as outer, two as inner:
            assert outer.holder != inner.holder
            with pytest.raises(SemaphoreTimeout):
                async with two:
                    pass
        assert occupied(store) == 0

    run(main())


def test_tasks_enter_one_object(store: MemoryStore) -> None:
    """Each leaves with its own permit."""
    two, most = AsyncSemaphore("api", 2, store=store, timeout=SOON), list[int]()

    async def body() -> None:
        async with two:
            most.append(occupied(store))
            await asyncio.sleep(0.001)

    async def main() -> None:
        await asyncio.gather(*[body() for _ in range(20)])

    run(main())
    assert max(most) == 2
    assert occupied(store) == 0


def test_left_in_another_task(api: AsyncSemaphore, store: MemoryStore) -> None:
    """``permit()`` may be; the semaphore itself says so."""

    async def main() -> None:
        block = api.permit()
        await asyncio.create_task(block.__aenter__())
        assert occupied(store) == 1
        await asyncio.create_task(block.__aexit__(None, None, None))
        assert occupied(store) == 0
        await asyncio.create_task(api.__aenter__())
        with pytest.raises(RuntimeError, match=r"semaphore\.permit\(\)"):
            await api.__aexit__(None, None, None)

    run(main())


def test_a_block_is_entered_once(api: AsyncSemaphore, store: MemoryStore) -> None:
    """Also by two tasks at once: one of their permits would be forgotten."""

    async def main() -> None:
        block = api.permit()
        entering = asyncio.create_task(block.__aenter__())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="entered already"):
            await block.__aenter__()
        await entering
        await block.__aexit__(None, None, None)
        with pytest.raises(RuntimeError, match="not entered"):
            await block.__aexit__(None, None, None)
        async with block:
            assert occupied(store) == 1

    run(main())
    soon_nothing_is_left(store)


class TestDecorator:
    def test_it_keeps_the_parameters(self, api: AsyncSemaphore, store: MemoryStore) -> None:
        @api
        async def fetch(order_id: int, *, fast: bool = False) -> tuple[int, bool, int]:
            """Fetch it."""
            return order_id, fast, occupied(store)

        assert (fetch.__name__, fetch.__doc__) == ("fetch", "Fetch it.")
        assert run(fetch(7, fast=True)) == (7, True, 1)

    def test_a_partial_of_a_coroutine_function(self, api: AsyncSemaphore) -> None:
        async def fetch(order_id: int) -> int:
            return order_id

        assert run(api(functools.partial(fetch, 7))()) == 7

    def test_a_generator(self, api: AsyncSemaphore, store: MemoryStore) -> None:
        """What is sent or thrown goes in."""
        closed = list[str]()

        @api
        async def items() -> AsyncIterator[Any]:
            try:
                got = yield occupied(store)
                while True:
                    got = yield got
            finally:
                closed.append("closed")

        async def main() -> None:
            sent: Any = items()
            assert await sent.asend(None) == 1
            assert await sent.asend("a") == "a"
            assert await sent.asend("b") == "b"
            with pytest.raises(LookupError):
                await sent.athrow(LookupError())
            assert closed == ["closed"]
            assert occupied(store) == 0
            left: Any = items()
            await left.asend(None)
            await left.aclose()
            assert closed == ["closed"] * 2

        run(main())
        soon_nothing_is_left(store)

    @pytest.mark.parametrize(
        "error", [ValueError("x"), asyncio.CancelledError(), StopAsyncIteration()]
    )
    @pytest.mark.parametrize("suppressed", [False, True])
    def test_a_generator_as_a_context_manager(
        self, api: AsyncSemaphore, store: MemoryStore, error: BaseException, *, suppressed: bool
    ) -> None:
        """It sees the error of its block, and may suppress it."""
        seen = list[BaseException]()

        @asynccontextmanager
        @api
        async def session() -> AsyncIterator[int]:
            try:
                yield occupied(store)
            except BaseException as of_block:
                seen.append(of_block)
                if not suppressed:
                    raise

        async def main() -> None:
            raised = list[BaseException]()
            try:
                async with session() as inside:
                    assert inside == 1
                    raise error  # noqa: TRY301
            except BaseException as after:  # noqa: BLE001 - compared
                raised.append(after)
            assert seen == [error]
            assert raised == ([] if suppressed else [error])
            assert occupied(store) == 0

        run(main())

    def test_a_generator_that_is_forgotten(self, api: AsyncSemaphore, store: MemoryStore) -> None:
        @api
        async def items() -> AsyncIterator[int]:
            yield 1
            yield 2

        async def main() -> None:
            async for _ in items():
                break
            gc.collect()
            await until(lambda: not occupied(store))

        run(main())
        soon_nothing_is_left(store)

    @pytest.mark.parametrize("given", [lambda: None, dict, 5, functools.partial(int)])
    def test_what_is_not_async(self, api: AsyncSemaphore, given: Any) -> None:
        with pytest.raises(ConfigurationError, match=r"async functions, not .*Semaphore decorates"):
            api(given)


class TestMistakes:
    def test_without_a_loop(self, api: AsyncSemaphore) -> None:
        """As in trio."""
        for call in (api.acquire, api.available, api.permit().__aenter__, api.__aenter__):
            with pytest.raises(SemaphoreError, match="waits in an asyncio loop, and none runs"):
                call().send(None)

    @pytest.mark.parametrize("timeout", [-1, float("nan"), "5", True])
    def test_a_timeout_that_is_none(self, api: AsyncSemaphore, timeout: Any) -> None:
        with pytest.raises(ConfigurationError, match="must be a number of seconds"):
            api.permit(timeout)
        with pytest.raises(ConfigurationError, match="must be a number of seconds"):
            run(api.acquire(timeout))

    def test_a_permit_that_is_none(self, api: AsyncSemaphore) -> None:
        with pytest.raises(ConfigurationError, match=r"release\(None\)"):
            run(api.release(None))  # type: ignore[arg-type]

    def test_a_block_that_is_not_async(self, api: AsyncSemaphore) -> None:
        sync: Any = api
        with pytest.raises(SemaphoreError, match="entered with `async with`"), sync:
            pass

    @pytest.mark.parametrize("semaphore", [Semaphore, AsyncSemaphore])
    def test_a_client_in_place_of_its_url(self, semaphore: Any) -> None:
        with pytest.raises(ConfigurationError, match="must be the URL of a store"):
            semaphore("api", 1, url=object())

    def test_nowhere_to_keep_permits(self) -> None:
        with pytest.raises(ConfigurationError, match="AsyncSemaphore needs one of app="):
            AsyncSemaphore("api", 1)

    def test_no_limit_is_known(self, store: MemoryStore) -> None:
        with pytest.raises(SemaphoreError, match="no limit is known yet for semaphore 'api'"):
            run(AsyncSemaphore("api", store=store).acquire())
        soon_nothing_is_left(store)


class TestFailingStore:
    def test_it_goes_on_trying(self, api: AsyncSemaphore, store: MemoryStore) -> None:
        failing = Failing(store, times=1)

        async def main() -> None:
            async with api:
                assert len(failing.waits) == 2

        run(main())

    def test_a_permit_whose_answer_was_lost(self, store: MemoryStore) -> None:
        LostAnswers(store, times=10**6)
        with pytest.raises(SemaphoreTimeout):
            run(AsyncSemaphore("api", 1, store=store, timeout=0).acquire())
        soon_nothing_is_left(store)

    def test_a_release_without_an_answer_is_repeated(
        self, api: AsyncSemaphore, store: MemoryStore, caplog: pytest.LogCaptureFixture
    ) -> None:
        release, failures = store.release, iter([StoreUnavailable("gone")] * 2)

        def fail(*given: Any) -> Any:
            if error := next(failures, None):
                raise error
            return release(*given)

        async def main() -> None:
            async with api:
                store.release = fail  # type: ignore[assignment,method-assign]

        run(main())
        assert "is not released yet, retrying: gone" in caplog.text
        soon_nothing_is_left(store)

    @pytest.mark.parametrize("error", [MemoryError(), StopIteration(), SystemExit()])
    def test_an_error_of_the_thread_is_that_of_each_caller(
        self, api: AsyncSemaphore, store: MemoryStore, error: BaseException
    ) -> None:
        """And the thread goes on."""
        call_all = store.call_all

        def fail(_: Any) -> Any:
            raise error

        async def main() -> None:
            store.call_all = fail  # type: ignore[assignment,method-assign]
            some = await asyncio.gather(*[api.acquire() for _ in range(3)], return_exceptions=True)
            assert [type(each).__name__ for each in some] == [
                "RuntimeError" if isinstance(error, StopIteration) else type(error).__name__
            ] * 3
            store.call_all = call_all  # type: ignore[method-assign]
            async with api:
                pass

        if isinstance(error, SystemExit):
            error = GeneratorExit()  # a task may not raise the other one
        run(main())
        soon_nothing_is_left(store)

    def test_a_release_that_fails_in_the_thread_is_repeated(
        self, api: AsyncSemaphore, store: MemoryStore
    ) -> None:
        """Its coroutine is cancelled, and can repeat nothing."""

        def fail(_: Any) -> Any:
            raise MemoryError

        async def main() -> None:
            permit = await api.acquire()
            store.call_all = fail  # type: ignore[assignment,method-assign]
            releasing = asyncio.create_task(api.release(permit))
            await asyncio.sleep(0)
            releasing.cancel()
            await asyncio.wait([releasing])

        run(main())
        soon_nothing_is_left(store)

    def test_a_store_that_answers_too_little(self, api: AsyncSemaphore, store: MemoryStore) -> None:
        """Or its coroutines would wait for ever."""

        async def main() -> None:
            store.call_all = lambda _: []  # type: ignore[assignment,method-assign]
            with pytest.raises(ValueError, match="zip"):
                await api.acquire()

        run(main())


def test_one_line_with_threads_and_told_by_them(api: AsyncSemaphore, store: MemoryStore) -> None:
    """A release of either kind tells the other, without a question."""

    def ask(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("gone")

    store.ask = ask  # type: ignore[method-assign]
    here = Semaphore("api", 1, store=store, timeout=SOON)

    async def main() -> None:
        permit = here.acquire(timeout=0)
        task = asyncio.create_task(api.acquire())
        await until(lambda: known(store))
        here.release(permit)
        async with asyncio.timeout(SOON / 4):
            got = await task
        assert not known(store), "it is asked for no more"
        thread = asyncio.create_task(asyncio.to_thread(here.acquire))
        await until(lambda: known(store))
        await api.release(got)
        async with asyncio.timeout(SOON / 4):
            here.release(await thread)

    run(main())


def test_uvloop_or_not(api: AsyncSemaphore, store: MemoryStore) -> None:
    for kind in ("asyncio", "uvloop"):
        loop: Run[Any] = run_in(kind)

        async def main() -> None:
            async with api:
                assert occupied(store) == 1

        loop(main())
