"""Semaphore: apply the same limits to code outside tasks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .core.asker import asker_of
from .core.blocking_waiter import BlockingWaiter
from .core.event_loop import is_in_event_loop
from .core.held_permits import OnLost, held_permits_in, in_a_thread
from .core.outage import NOT_RELEASED, outage_of
from .core.permit import Permit
from .core.snapshot import Held
from .core.store import Store
from .errors import SemaphoreError, StoreUnavailable
from .semaphore_base import SemaphoreBase, extend, not_held
from .semaphore_checks import check_function, check_permit
from .stores.options import StoreOptions
from .with_blocks import WithBlocks, place_of

P = ParamSpec("P")
R = TypeVar("R")


class Semaphore(SemaphoreBase):
    """Limits the total ``weight`` that runs at once, for each ``key``, of tasks and other code together.

    One object may be shared by threads, entered again while it is entered, and used after a fork: a child process
    neither renews nor releases the permits of its parent. ``timeout`` bounds each wait; None waits for ever.
    ``on_lost`` is called with the permit when its lease ended while its holder ran, each time in a separate thread:
    a callback that hangs delays neither renewals nor other callbacks.
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
        on_lost: OnLost | None = None,
    ) -> None:
        """Keep permits in the store of a Celery ``app``, of ``url``, or in ``store``; exactly one of them is required.

        The smallest ``limit`` that tasks and other code declared lately is in force; one without a limit obeys it, and
        declares none.
        The settings of the app are read at the first use. ``prefix`` and ``lease`` apply to ``url`` only. ``prefix``
        must equal the workers' ``semaphore_prefix``. The store keeps one lease for all, that of its first caller; if
        ``lease`` is another one, a warning is logged once.
        """
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
        self._blocks = WithBlocks()

    def acquire(self, timeout: float | None = None) -> Permit:
        """Wait in line for a permit; ``timeout`` overrides the semaphore's own, and with 0 it asks once.

        Raise ``SemaphoreTimeout``; while the store is out of reach, retry until then. In a signal handler give a
        timeout, as the interrupted code may hold the permit. In the thread of a running asyncio loop only a timeout of
        0 is allowed, as a wait would stop the loop; ``release`` may be called there.
        """
        waiter = self._waiter(self._length(timeout))
        try:
            return self._acquire(waiter)
        except BaseException:  # a signal handler may raise when the permit is there already
            self._give_up(waiter)
            raise

    def release(self, permit: Permit) -> None:
        """Release a permit, if this process holds it; while the store is away, a thread retries."""
        check_permit("release", permit)
        is_held = False
        try:
            is_held = held_permits_in(self._store).has(permit)
            self._release(permit)
        except SemaphoreError:
            raise
        except BaseException:  # a signal handler raised: the store may not have been told
            self._release_later(permit, was_held=is_held)
            raise

    def extend(self, permit: Permit) -> None:
        """Renew a permit now, before the next regular renewal; raise ``PermitLost`` if it is lost."""
        check_permit("extend", permit)
        if not held_permits_in(self._store).has(permit):
            raise not_held(permit)
        extend(self._store, permit)

    def available(self) -> int:
        """Return how much of the limit is free right now.

        What waits keep while another of their semaphores is saturated is not free. It is 0 during a pause, and if more
        than the limit is in use, because the limit was lowered or the store lost its data.
        """
        return self._free()

    def holders(self) -> tuple[Held, ...]:
        """Return the current holders of permits, tasks and other code, oldest first."""
        return self._seen().holders

    def permit(self, timeout: float | None = None) -> PermitBlock:
        """Return a ``with`` block that holds a permit; ``timeout`` overrides the semaphore's own, as in ``acquire``.

        Unlike ``with semaphore``, it may be left in another thread than it was entered in.
        """
        return PermitBlock(self, self._length(timeout))

    def _waiter(self, timeout: float) -> BlockingWaiter:
        if timeout > 0:
            self._refuse_to_stop_a_loop()
        return BlockingWaiter(
            self._store,
            (self._claim,),
            timeout,
            ready=held_permits_in(self._store).ready,
            on_answer=self._check_known if self._claim.limit is None else None,
        )

    def _acquire(self, waiter: BlockingWaiter) -> Permit:
        permit, since = waiter.acquire()
        held_permits_in(self._store).add(permit, since, in_a_thread(self._on_lost))
        return permit

    def _give_up(self, waiter: BlockingWaiter) -> None:
        """Renew no more what an acquire got that does not return, and release it."""
        try:
            held_permits_in(self._store).take(waiter.holder)
            waiter.give_up()
        except BaseException:  # a signal handler raised: the store may not have been told
            held_permits_in(self._store).take(waiter.holder)
            waiter.give_up_later()
            raise

    def _release(self, permit: Permit) -> None:
        if not held_permits_in(self._store).take(permit.holder):
            return
        try:
            handed = self._store.release(permit.holder, permit.claims)
        except StoreUnavailable as error:
            self._release_later(permit, was_held=True)
            outage_of(self._store).failed(NOT_RELEASED, permit.holder, error)
        else:
            if handed.granted:
                asker_of(self._store).tell(handed.granted)

    def _refuse_to_stop_a_loop(self) -> None:
        """Raise if a wait would stop an event loop, and so any code in it that would release."""
        if is_in_event_loop():
            msg = (
                f"semaphore {self._claim.semaphore!r}: waiting here stops the asyncio loop of this thread. Use"
                " AsyncSemaphore, with the same arguments: `async with`, or `await semaphore.acquire()`. Or ask once:"
                " acquire(timeout=0)."
            )
            raise SemaphoreError(msg)

    def __enter__(self) -> Permit:
        waiter, permit = self._waiter(self._timeout), None
        try:
            permit = self._acquire(waiter)
            self._blocks.enter(permit, place_of(sys._getframe(1)))  # noqa: SLF001 - the caller's
            return permit  # noqa: TRY300 - inside, as a handler may raise before it
        except BaseException:
            if permit is not None:
                self._blocks.leave(permit)
            self._give_up(waiter)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        permit: Permit | None = None
        is_held = False
        try:  # at once: a signal handler may raise at any call
            permit = self._left(sys._getframe(1))  # noqa: SLF001 - the caller's
            if permit is not None:
                is_held = held_permits_in(self._store).has(permit)
                # First: an entry that stays would be left in place of an outer block.
                self._blocks.leave(permit)
                self.release(permit)
        except SemaphoreError:
            raise
        except BaseException:  # a signal handler raised, perhaps before the release had begun
            permit = permit or self._left(sys._getframe(1))  # noqa: SLF001 - as above
            if permit is not None:
                self._release_later(permit, was_held=is_held)
            raise
        finally:
            if permit is not None:
                self._blocks.leave(permit)
        if permit is None:
            msg = (
                "a Semaphore is left where it was entered, not in another thread or asyncio task:"
                " use permit(), or acquire() and release(), there"
            )
            raise RuntimeError(msg)

    def _left(self, frame: FrameType) -> Permit | None:
        """Return the permit of the block that is left in this frame, or None if none was entered there."""
        return self._blocks.left(place_of(frame), held_permits_in(self._store).has)

    if not TYPE_CHECKING:  # else a type checker would let `async with` pass

        async def __aenter__(self) -> Permit:
            self._refuse_to_stop_a_loop()

        async def __aexit__(self, *_: object) -> None:
            """Do nothing: ``async with`` never enters."""

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Decorate a function: each call of it holds a permit."""
        check_function(function)

        @wraps(function)
        def limited(*args: P.args, **kwargs: P.kwargs) -> R:
            with self:
                return function(*args, **kwargs)

        return limited


class PermitBlock:
    """Holds a permit for a ``with`` block of its own: see ``Semaphore.permit``."""

    def __init__(self, semaphore: Semaphore, timeout: float) -> None:
        self._semaphore = semaphore
        self._timeout = timeout
        self._permit: Permit | None = None
        self._is_entering = False  # two threads must not share it

    def __enter__(self) -> Permit:
        if self._is_entering or self._permit is not None:
            msg = "this block is entered already: call permit() once for each"
            raise RuntimeError(msg)
        waiter = self._semaphore._waiter(self._timeout)  # noqa: SLF001 - its own, as those below
        try:
            self._is_entering = True
            self._permit = permit = self._semaphore._acquire(waiter)  # noqa: SLF001
            self._is_entering = False
            return permit  # noqa: TRY300 - inside, as a handler may raise before it
        except BaseException:
            self._permit, self._is_entering = None, False
            self._semaphore._give_up(waiter)  # noqa: SLF001
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        permit = self._permit
        if permit is None:
            msg = "this block is not entered"
            raise RuntimeError(msg)
        is_held = False
        try:
            is_held = held_permits_in(self._semaphore._store).has(permit)  # noqa: SLF001
            self._semaphore.release(permit)
        except SemaphoreError:
            raise
        except BaseException:  # as in Semaphore
            self._semaphore._release_later(permit, was_held=is_held)  # noqa: SLF001
            raise
        finally:
            self._permit = None
