"""AsyncSemaphore: apply the same limits to coroutines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import aclosing
from contextvars import ContextVar
from functools import partial, wraps
from inspect import isasyncgenfunction
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar

from .async_permit_block import AsyncPermitBlock, is_closed
from .core.acquisition import Run
from .core.event_loop import check_loop, is_in_event_loop
from .core.held_permits import OnLost, held_permits_in
from .core.loop_calls import loop_calls_of
from .core.loop_waiter import LoopWaiter
from .core.permit import Permit
from .core.snapshot import Held
from .core.store import Release, Store
from .errors import ConfigurationError, SemaphoreError, SemaphoreTimeout
from .loop_losses import LossCallback
from .semaphore_base import SemaphoreBase, extend, not_held
from .semaphore_checks import CANCEL, check_async_function, check_on_lost, check_permit
from .stores.options import StoreOptions
from .with_blocks import Place, awaiting_place_of, is_of_pair

if sys.version_info >= (3, 12):
    from inspect import markcoroutinefunction

F = TypeVar("F", bound=Callable[..., Any])


def _marked_async(function: F) -> F:
    """Mark a function that returns a coroutine, so that frameworks call it in the loop like an async function."""
    if sys.version_info >= (3, 12):
        return markcoroutinefunction(function)
    function._is_coroutine = asyncio.coroutines._is_coroutine  # type: ignore[attr-defined]  # noqa: SLF001
    return function


class AsyncSemaphore(SemaphoreBase):
    """Limits coroutines together with tasks, threads and other processes: ``Semaphore`` for asyncio.

    One object serves any number of event loops, in any threads. Nothing blocks a loop: threads call the store and renew
    permits, also while the loop is blocked. A coroutine may be cancelled at any await: it leaves the line, and what it
    got is released. ``on_lost`` is called in the loop with the permit when its lease ended while its holder ran; an
    async function becomes a task; ``"cancel"`` cancels the body of the block, which raises ``PermitLost``.
    """

    def __init__(
        self,
        name: str,
        limit: int | None = None,
        *,
        key: str | None = None,
        weight: int = 1,
        app: Any = None,
        url: str | None = None,
        store: Store | None = None,
        prefix: str = StoreOptions.prefix,
        lease: float = StoreOptions.lease,
        timeout: float | None = None,
        on_lost: OnLost | Literal["cancel"] | None = None,
    ) -> None:
        """Take the arguments of ``Semaphore``, and ``on_lost="cancel"``."""
        check_on_lost(on_lost)
        super().__init__(
            name,
            limit,
            key=key,
            weight=weight,
            app=app,
            url=url,
            store=store,
            prefix=prefix,
            lease=lease,
            timeout=timeout,
        )
        self._on_lost = on_lost
        # Those of `async with semaphore`, in order, until they are left. Not weakly: the collector may close the
        # coroutine of a block in any task, and clears weak references to the block first.
        self._blocks: dict[AsyncPermitBlock, None] = {}

    async def acquire(self, timeout: float | None = None) -> Permit:  # noqa: ASYNC109 - of its place in line
        """Wait in line for a permit; ``timeout`` overrides the semaphore's own, and with 0 it asks once.

        Raise ``SemaphoreTimeout``; while the store is out of reach, retry until then.
        """
        if self._on_lost == CANCEL:
            msg = 'on_lost="cancel" cancels the body of a block, and acquire() has none: use `async with`.'
            raise ConfigurationError(msg)
        waiter = self._waiter(self._length(timeout))
        try:
            return await self._acquire(waiter, self._callback(), None)
        except BaseException as error:
            await self._give_up(waiter, error)
            raise

    @_marked_async
    def release(self, permit: Permit) -> Coroutine[Any, Any, None]:
        """Release a permit, if this process holds it; what comes after the await sees it free.

        In a running loop the call itself queues the release. If its task is cancelled, also before its first step, the
        permit is released all the same. While the store is away, a thread retries.
        """
        check_permit("release", permit)
        is_held = False
        try:
            is_held = held_permits_in(self._store).has(permit)
            return self._released(permit, self._queued(permit) if is_in_event_loop() else None)
        except BaseException:  # a signal handler raised, perhaps before it was queued
            self._release_later(permit, was_held=is_held)
            raise

    def _queued(self, permit: Permit) -> asyncio.Future[None] | None:
        """Queue the release of a permit; return the future of its answer, or None if this process does not hold it."""
        if not held_permits_in(self._store).take(permit.holder):
            return None
        return self._queued_again(permit)

    def _queued_again(self, permit: Permit) -> asyncio.Future[None]:
        try:
            return loop_calls_of(self._store).queue(Release(permit.holder, permit.claims))
        except BaseException:  # perhaps it was not queued
            self._release_later(permit, was_held=True)
            raise

    async def _released(self, permit: Permit, queued: asyncio.Future[None] | None) -> None:
        if is_closed() and not is_in_event_loop():  # the coroutine can await nothing
            self._release_later(permit)
            return
        check_loop()
        if queued is None:  # it was called where no loop runs
            queued = self._queued(permit)
        elif queued.get_loop() is not asyncio.get_running_loop():
            queued = self._queued_again(permit)  # twice does no harm
        if queued is not None:
            await queued

    async def extend(self, permit: Permit) -> None:
        """Renew a permit now, before the next regular renewal; raise ``PermitLost`` if it is lost."""
        check_permit("extend", permit)
        if not held_permits_in(self._store).has(permit):
            raise not_held(permit)
        await self._made(Run(partial(extend, self._store, permit), permit.claims))

    async def available(self) -> int:
        """Return how much of the limit is free right now: see ``Semaphore.available``."""
        free: int = await self._made(Run(self._free))
        return free

    async def holders(self) -> tuple[Held, ...]:
        """Return the current holders of permits, tasks and other code, oldest first."""
        seen = await self._made(Run(self._seen))
        holders: tuple[Held, ...] = seen.holders
        return holders

    def permit(self, timeout: float | None = None) -> AsyncPermitBlock:
        """Return an ``async with`` block that holds a permit; ``timeout`` overrides the semaphore's own.

        Unlike ``async with semaphore``, it may be left in another task than it was entered in.
        """
        return AsyncPermitBlock(self, self._length(timeout))

    def _callback(self) -> LossCallback | None:
        return LossCallback(self._on_lost) if callable(self._on_lost) and check_loop() else None

    async def _made(self, run: Run) -> Any:
        check_loop()
        return await loop_calls_of(self._store).make(run)

    def _waiter(self, lasts: float) -> LoopWaiter:
        check_loop()
        return LoopWaiter(
            self._store,
            (self._claim,),
            lasts,
            ready=held_permits_in(self._store).ready,
            on_answer=self._check_known if self._claim.limit is None else None,
        )

    async def _acquire(
        self, waiter: LoopWaiter, tell_lost: OnLost | None, gone: Callable[[], bool] | None
    ) -> Permit:
        permit, since = await waiter.acquire()
        # Not before its answer was read: a permit that no coroutine takes is not renewed.
        held_permits_in(self._store).add(permit, since, tell_lost, gone)
        return permit

    async def _give_up(self, waiter: LoopWaiter, error: BaseException) -> None:
        """Renew no more what an acquire got that does not return, and release it."""
        try:
            held_permits_in(self._store).take(waiter.holder)
            if isinstance(error, SemaphoreTimeout):
                await waiter.leave()  # or the next acquire would still find it in line
            else:
                waiter.give_up()
        except (asyncio.CancelledError, GeneratorExit):  # while it left, which was queued
            raise
        except BaseException:  # a signal handler raised, perhaps before it was queued
            held_permits_in(self._store).take(waiter.holder)
            waiter.give_up()
            raise

    async def __aenter__(self) -> Permit:
        block = self.permit()
        block.place = awaiting_place_of(sys._getframe(1))  # noqa: SLF001 - there is no other way to the frame
        try:
            permit = await block.__aenter__()
            self._blocks[block] = None
            _entered.set((*_held_here(), (self, block)))
            return permit  # noqa: TRY300 - inside, as a signal handler may raise before it
        except BaseException:
            self._forget(block)
            block.release_later()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        mine: AsyncPermitBlock | None = None
        try:  # at once: a signal handler may raise at any call
            place = awaiting_place_of(sys._getframe(1))  # noqa: SLF001 - as above
            mine = self._left(place)
            if mine is None:
                await self._left_elsewhere(place, kind, error, at)
            self._forget(mine)
            await mine.__aexit__(kind, error, at)
        except (SemaphoreError, asyncio.CancelledError):
            raise
        except BaseException:  # a signal handler raised, perhaps before the block was left
            place = awaiting_place_of(sys._getframe(1))  # noqa: SLF001 - as above
            if mine is None:
                # A closed coroutine may be in the context of another task, which must keep its block.
                is_ended = isinstance(error, GeneratorExit)
                mine = self._entered_at(place) if is_ended else self._left(place)
            if mine:
                self._forget(mine)
                mine.release_later()
            raise

    def _left(self, place: Place | None) -> AsyncPermitBlock | None:
        """Return the block that is left here."""
        here = [block for semaphore, block in reversed(_held_here()) if semaphore is self]
        mine = here[0] if here else None
        if mine is None or mine.place != place:
            mine = self._entered_at(place) or self._entered_by_hand(place, here)
        return mine

    async def _left_elsewhere(
        self,
        place: Place | None,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> NoReturn:
        if (abandoned := self._abandoned(place)) is not None:
            self._forget(abandoned)
            await abandoned.__aexit__(kind, error, at)
        msg = (
            "an AsyncSemaphore is left in the task in which it was entered:"
            " use `async with semaphore.permit()`, or acquire() and release()"
        )
        raise RuntimeError(msg)

    def _forget(self, block: AsyncPermitBlock) -> None:
        self._blocks.pop(block, None)
        _entered.set(tuple(pair for pair in _held_here() if pair[1] is not block))

    def _entered_at(self, place: Place | None) -> AsyncPermitBlock | None:
        """Return the block that was entered last at this place: a generator may be closed in another task."""
        return next((each for each in self._held() if place and each.place == place), None)

    def _entered_by_hand(
        self, place: Place | None, here: Sequence[AsyncPermitBlock]
    ) -> AsyncPermitBlock | None:
        """Return the block that is left here by hand, one of those ``here`` in this context, the last one first.

        While a coroutine is closed this may be the context of any task, in which the collector runs. That task must
        keep its block.
        """
        mine = next((each for each in here if is_of_pair(each.place, place)), None)
        if is_closed():
            return self._abandoned(place) or mine
        return mine or (here[0] if here else None)

    def _abandoned(self, place: Place | None) -> AsyncPermitBlock | None:
        """Return a block that outlived its task, if it may have been entered by hand and is left here.

        Else its permit would be renewed for ever.
        """
        held = (each for each in self._held() if is_of_pair(each.place, place))
        return next((each for each in held if each.is_abandoned()), None)

    def _held(self) -> list[AsyncPermitBlock]:
        """Return the blocks that are not left, the last one first."""
        return [each for each in reversed(self._blocks.copy()) if each.is_held]

    if not TYPE_CHECKING:  # else a type checker would let `with` pass

        def __enter__(self) -> Permit:
            msg = "an AsyncSemaphore is entered with `async with`; for `with`, use Semaphore with the same arguments"
            raise SemaphoreError(msg)

        def __exit__(self, *_: object) -> None:
            """Do nothing: ``with`` never enters."""

    def __call__(self, function: F) -> F:
        """Decorate an async function, or an async generator function: each call of it holds a permit.

        A generator holds it from its first item until it ends or is closed, also while it is suspended.
        """
        check_async_function(function)
        if isasyncgenfunction(function):
            return self._limited_generator(function)

        @wraps(function)
        async def limited(*args: Any, **kwargs: Any) -> Any:
            async with self.permit():
                return await function(*args, **kwargs)

        return limited  # type: ignore[return-value]

    def _limited_generator(self, function: F) -> F:
        if self._on_lost == CANCEL:
            msg = (
                'on_lost="cancel" cancels a task, and an async generator has none of its own: it would be whatever'
                f" its caller does. Give on_lost a function for {function!r}, or hold the permit in the caller."
            )
            raise ConfigurationError(msg)

        @wraps(function)
        async def limited(*args: Any, **kwargs: Any) -> Any:
            async with self.permit(), aclosing(function(*args, **kwargs)) as inner:
                resumed = inner.asend(None)
                while True:
                    try:
                        item = await resumed
                    except StopAsyncIteration:
                        return
                    try:
                        sent = yield item
                    except GeneratorExit:
                        raise
                    except BaseException as error:  # noqa: BLE001 - the inner one may handle it
                        resumed = inner.athrow(error)
                    else:
                        resumed = inner.asend(sent)

        return limited  # type: ignore[return-value]


def _held_here() -> tuple[tuple[AsyncSemaphore, AsyncPermitBlock], ...]:
    """Return the blocks of this context without those that were left in another one."""
    return tuple(pair for pair in _entered.get() if pair[1].is_held)


# Each asyncio task has its own, so that each releases the permit that it entered with.
_entered: ContextVar[tuple[tuple[AsyncSemaphore, AsyncPermitBlock], ...]] = ContextVar(
    "async_entered", default=()
)
