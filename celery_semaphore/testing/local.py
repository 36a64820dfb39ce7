"""Keep an app's permits in the process that runs its tests, with or without limits."""

# ruff: noqa: PLC0415 - pytest imports this before the project is loaded, see the package

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..core.claim import Claim
from ..core.message_id import MessageId
from ..core.permit import Permit, Renewal, Renewals
from ..core.refusal import Answer
from ..core.wait import Wait
from ..errors import ConfigurationError
from ..stores.memory import MemoryStore
from ..stores.options import DEFAULTS, StoreOptions

if TYPE_CHECKING:
    from ..core.store import HandedOn
    from ..core.ticket import Ticket

SHUTDOWN_TIMEOUT_S = 1.0  # how long permits that tests still hold may take to be released


class LocalStore(MemoryStore):
    """Keeps an app's permits in this process; while ``unlimited`` it grants every permit."""

    unlimited = False

    def __init__(self, options: StoreOptions = DEFAULTS) -> None:
        super().__init__(options)
        self._beyond: set[str | Ticket] = set()  # holders that were admitted without being counted

    def acquire(
        self,
        claims: Sequence[Claim],
        holder: str,
        wait: Wait | None = None,
        message_id: MessageId | None = None,
    ) -> Answer:
        if not self.unlimited:
            return super().acquire(claims, holder, wait, message_id)
        now = time.time()
        self._beyond.add(holder)
        return Permit(holder, time.time_ns(), tuple(claims), now, now + self.lease, 0)

    def renew(self, permits: Iterable[Permit]) -> Renewals:
        permits = list(permits)
        counted = [permit for permit in permits if permit.holder not in self._beyond]
        others = {permit.holder: Renewal.OK for permit in permits if permit not in counted}
        return super().renew(counted) | others

    def release(
        self, holder: str | Ticket, claims: Sequence[Claim], message_id: MessageId | None = None
    ) -> HandedOn:
        self._beyond.discard(holder)
        return super().release(holder, claims, message_id)


@contextmanager
def local_store(app: Any) -> Iterator[LocalStore]:
    """Keep the permits of this app, and of each ``Semaphore`` of a URL or an app, in this process: no server is needed.

    Tasks must run in this process: called with ``apply``, or by a worker that is started in it with the pool
    solo or threads.
    """
    from .. import semaphore_base
    from ..core.held_permits import by_store
    from ..task.steps import add_steps
    from ..worker.limiter import LIMITER, Limiter

    before = app.__dict__.get(LIMITER)
    if before is not None and getattr(before.worker.pool, "active", False):
        msg = (
            "a worker of this app is already running: ask for semaphore_store before celery_worker. For celery_session_worker"
            " use local_store(celery_session_app) in a fixture of the session, and ask for that one before."
        )
        raise ConfigurationError(msg)
    add_steps(app)  # a test may define its tasks after its worker has started
    store = LocalStore()
    app.__dict__[LIMITER] = limiter = Limiter(app, store)
    semaphore_base.test_stores.append(store)
    try:
        yield store
    finally:
        semaphore_base.test_stores.remove(store)
        if store in by_store:
            by_store.pop(store).close()
        limiter.close(SHUTDOWN_TIMEOUT_S, flush=SHUTDOWN_TIMEOUT_S)
        del app.__dict__[LIMITER]
        if before is not None:
            app.__dict__[LIMITER] = before


@contextmanager
def unlimited(app: Any = None) -> Iterator[None]:
    """Switch off all limits of this app, by default the current one, and those of ``Semaphore`` of a URL or an app."""
    app = current_app() if app is None else app
    store = _local_store_of(app)
    if store is None:
        with local_store(app) as store:
            store.unlimited = True
            yield
        return
    before, store.unlimited = store.unlimited, True
    try:
        yield
    finally:
        store.unlimited = before


def current_app() -> Any:
    from ..worker.celery_internals import app_behind_proxy

    return app_behind_proxy()


def _local_store_of(app: Any) -> LocalStore | None:
    from ..worker.limiter import LIMITER

    limiter = app.__dict__.get(LIMITER)
    store = limiter.process.store if limiter is not None else None
    return store if isinstance(store, LocalStore) else None
