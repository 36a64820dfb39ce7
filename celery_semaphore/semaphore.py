"""Semaphore: apply the same limits to code outside tasks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .core.blocking_waiter import BlockingWaiter
from .core.event_loop import is_in_event_loop
from .core.held_permits import OnLost, held_permits_in
from .core.key import any_key_of
from .core.permit import Claim, Held, Permit, Refusal, Renewal
from .core.seconds import lease_of
from .core.store import Store
from .errors import ConfigurationError, PermitLost, SemaphoreError, StoreUnavailable
from .semaphore_checks import (
    check,
    check_app,
    check_function,
    check_permit,
    seconds,
    unknown_limit,
)
from .settings import Settings
from .stores import store_from_url
from .stores.options import StoreOptions

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

STORE = "_semaphore_store"  # the attribute of an app that holds the store of its semaphores
_opened: dict[tuple[str, str, float], Store] = {}
test_stores: list[Store] = []  # the last one replaces the store of every URL and app


class Semaphore:
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
        if [app, url, store].count(None) != 2:  # noqa: PLR2004 - all but one
            msg = "Semaphore needs one of app=, url= and store=, which says where permits are kept."
            raise ConfigurationError(msg)
        if app is not None:
            check_app(app, prefix, lease)
        lease_of(lease)
        check(name, limit, key, weight)
        self._claim = Claim(name, key, limit, weight)
        self._app = app
        self._is_given = store is not None
        self._kept_in = _shared_store(url, prefix, lease) if url is not None else store
        self._timeout = inf if timeout is None else seconds(timeout)
        self._on_lost = on_lost

    def acquire(self, timeout: float | None = None) -> Permit:
        """Wait in line for a permit; ``timeout`` overrides the semaphore's own, and with 0 it asks once.

        Raise ``SemaphoreTimeout``; while the store is out of reach, retry until then. In a signal handler give a
        timeout, as the interrupted code may hold the permit. In the thread of a running asyncio loop only a timeout of
        0 is allowed, as a wait would stop the loop; ``release`` may be called there.
        """
        waiter = self._waiter(self._timeout if timeout is None else seconds(timeout))
        try:
            return self._acquire(waiter)
        except BaseException:  # a signal handler may raise when the permit is there already
            self._give_up(waiter)
            raise

    def release(self, permit: Permit) -> None:
        """Release a permit, if this process holds it; while the store is away, a thread retries for one lease."""
        check_permit("release", permit)
        try:
            self._release(permit)
        except SemaphoreError:
            raise
        except BaseException:  # a signal handler raised: the store may not have been told
            self._release_later(permit)
            raise

    def extend(self, permit: Permit) -> None:
        """Renew a permit now, before the next regular renewal; raise ``PermitLost`` if it is lost."""
        check_permit("extend", permit)
        if not held_permits_in(self._store).has(permit):
            msg = f"{permit.holder}: this process does not hold the permit"
            raise PermitLost(msg)
        renewal = self._store.renew([permit]).get(permit.holder)
        if renewal is None:
            msg = f"{permit.holder}: the store could not renew the permit now"
            raise StoreUnavailable(msg)
        if renewal is Renewal.LOST:
            msg = f"{permit.holder}: the lease ended, another holder may have the permit now"
            raise PermitLost(msg)

    def available(self) -> int:
        """Return how much of the limit is free right now.

        What waits keep while another of their semaphores is saturated is not free. It is 0 during a pause, and if more
        than the limit is in use, because the limit was lowered or the store lost its data.
        """
        seen = self._store.snapshot(self._claim.resource, waiters=1)
        limit = self._claim.limit if seen.limit is None else seen.limit
        if limit is None:
            raise self._unknown_limit()
        return 0 if seen.paused_until is not None else max(0, limit - seen.occupied - seen.kept)

    def holders(self) -> tuple[Held, ...]:
        """Return the current holders of permits, tasks and other code, oldest first."""
        return self._store.snapshot(self._claim.resource, waiters=1).holders

    def _waiter(self, timeout: float) -> BlockingWaiter:
        if timeout > 0:
            self._refuse_to_stop_a_loop()
        return BlockingWaiter(
            self._store,
            (self._claim,),
            timeout,
            ready=held_permits_in(self._store).check,
            on_answer=self._check_known,
        )

    def _acquire(self, waiter: BlockingWaiter) -> Permit:
        permit, since = waiter.acquire()
        held_permits_in(self._store).add(permit, since, self._on_lost)
        return permit

    def _give_up(self, waiter: BlockingWaiter) -> None:
        """Renew no more what an acquire got that does not return, and release it."""
        held_permits_in(self._store).take(waiter.holder)
        waiter.give_up()

    def _release(self, permit: Permit) -> None:
        if not held_permits_in(self._store).take(permit.holder):
            return
        try:
            self._store.release(permit.holder, permit.claims)
        except StoreUnavailable as error:
            self._release_later(permit)
            logger.warning(
                "%s is not released yet, retrying for one lease: %s", permit.holder, error
            )

    def _release_later(self, permit: Permit) -> None:
        """Renew it no more and release it in the background; twice does no harm."""
        held_permits = held_permits_in(self._store)
        held_permits.take(permit.holder)
        held_permits.release_later(permit.holder, permit.claims)

    def _check_known(self, answer: Refusal | StoreUnavailable) -> None:
        """Raise where no limit is given here or known to the store; in a grace tasks may declare it."""
        if self._claim.limit is None and isinstance(answer, Refusal) and answer.limit == 0:
            seen = self._store.snapshot(self._claim.resource, waiters=1)
            if seen.limit is None and seen.grace_until is None:
                raise self._unknown_limit()

    def _unknown_limit(self) -> SemaphoreError:
        tasks = self._app.tasks.values() if self._app is not None else ()
        key = self._store.snapshot(any_key_of(self._claim.resource), waiters=1)
        return unknown_limit(self._claim, tasks, has_keys=key.limit is not None)

    def _refuse_to_stop_a_loop(self) -> None:
        """Raise if a wait would stop an event loop, and so any code in it that would release."""
        if is_in_event_loop():
            msg = (
                f"semaphore {self._claim.semaphore!r}: waiting here stops the asyncio loop of this thread. Wait in a"
                " thread, `await loop.run_in_executor(executor, semaphore.acquire)`, with an executor for such waits"
                " alone: asyncio.to_thread shares one that waiting calls fill. Or ask once: acquire(timeout=0)."
            )
            raise SemaphoreError(msg)

    @property
    def _store(self) -> Store:
        if test_stores and not self._is_given:
            return test_stores[-1]
        if self._kept_in is None:
            self._kept_in = _store_of(self._app)
        return self._kept_in

    def __enter__(self) -> Permit:
        entered, waiter = _entered.get(), self._waiter(self._timeout)
        try:
            permit = self._acquire(waiter)
            _entered.set((*entered, (self, permit)))
            return permit  # noqa: TRY300 - inside, as a handler may raise before it
        except BaseException:
            _entered.set(entered)
            self._give_up(waiter)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        pairs = _entered.get()
        mine = next((pair for pair in reversed(pairs) if pair[0] is self), None)
        if mine is None:
            msg = (
                "a Semaphore is left where it was entered, not in another thread or asyncio task:"
                " use acquire() and release() there"
            )
            raise RuntimeError(msg)
        try:
            self.release(mine[1])
        except SemaphoreError:
            raise
        except BaseException:  # a signal handler raised, perhaps before the release had begun
            self._release_later(mine[1])
            raise
        finally:
            _entered.set(tuple(pair for pair in pairs if pair is not mine))

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


# Each thread, greenlet and asyncio task has its own, so that each releases the permit that it entered with.
_entered: ContextVar[tuple[tuple[Semaphore, Permit], ...]] = ContextVar("entered", default=())


def _store_of(app: Any) -> Store:
    """Return one store for all semaphores of a process with this app."""
    store: Store | None = app.__dict__.get(STORE)
    return store or app.__dict__.setdefault(STORE, Settings.from_app(app).open_store())


def _shared_store(url: str, prefix: str, lease: float) -> Store:
    """Return one store for all semaphores of a process with the same URL, so that one keeper renews all permits."""
    where = (url, prefix, lease)
    if where not in _opened:
        options = StoreOptions(prefix=prefix, lease=lease)
        _opened.setdefault(where, store_from_url(where[0], options))
    return _opened[where]
