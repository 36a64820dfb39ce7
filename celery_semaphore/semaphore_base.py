"""SemaphoreBase: the arguments of Semaphore and AsyncSemaphore, and the store that they keep permits in."""

from __future__ import annotations

from math import inf
from typing import Any

from .core.claim import Claim
from .core.held_permits import held_permits_in
from .core.key import any_key_of
from .core.permit import Permit, Renewal
from .core.refusal import Refusal
from .core.renewal import renewed
from .core.seconds import lease_of
from .core.snapshot import Snapshot
from .core.store import Store
from .errors import ConfigurationError, PermitLost, SemaphoreError, StoreUnavailable
from .semaphore_checks import check, check_app, check_url, seconds, unknown_limit
from .settings import Settings
from .stores import store_from_url
from .stores.options import StoreOptions

STORE = "_semaphore_store"  # the attribute of an app that holds the store of its semaphores
_opened: dict[tuple[str, str, float], Store] = {}
test_stores: list[Store] = []  # the last one replaces the store of every URL and app


class SemaphoreBase:
    """Holds what a semaphore claims, and where."""

    def __init__(
        self,
        name: str,
        limit: int | None,
        *,
        key: str | None,
        weight: int,
        app: Any,
        url: str | None,
        store: Store | None,
        prefix: str,
        lease: float,
        timeout: float | None,
    ) -> None:
        if [app, url, store].count(None) != 2:  # noqa: PLR2004 - all but one
            msg = (
                f"{type(self).__name__} needs one of app=, url= and store=,"
                " which says where permits are kept."
            )
            raise ConfigurationError(msg)
        if app is not None:
            check_app(app, prefix, lease)
        if url is not None:
            check_url(url)
        lease_of(lease)
        check(name, limit, key, weight)
        self._claim = Claim(name, key, limit, weight)
        self._app = app
        self._is_given = store is not None
        self._kept_in = _shared_store(url, prefix, lease) if url is not None else store
        self._timeout = inf if timeout is None else seconds(timeout)

    @property
    def _store(self) -> Store:
        if test_stores and not self._is_given:
            return test_stores[-1]
        if self._kept_in is None:
            self._kept_in = _store_of(self._app)
        return self._kept_in

    def _length(self, timeout: float | None) -> float:
        return self._timeout if timeout is None else seconds(timeout)

    def _release_later(self, permit: Permit, *, was_held: bool = False) -> None:
        """Release it in the background, if this process holds it, or held it when its release began.

        Another process, such as the parent of a forked child, may still run under it. Twice does no harm.
        """
        held_permits = held_permits_in(self._store)
        if held_permits.take(permit.holder) or was_held:
            held_permits.release_later(permit.holder, permit.claims)

    def _seen(self) -> Snapshot:
        return self._store.snapshot(self._claim.resource, waiters=1)

    def _free(self) -> int:
        seen = self._seen()
        limit = self._claim.limit if seen.limit is None else seen.limit
        if limit is None:
            raise self._unknown_limit()
        return 0 if seen.paused_until is not None else max(0, limit - seen.occupied - seen.kept)

    def _check_known(self, answer: Refusal | StoreUnavailable) -> None:
        """Raise where no limit is given here or known to the store; in a grace tasks may declare it."""
        if self._claim.limit is None and isinstance(answer, Refusal) and answer.limit == 0:
            seen = self._seen()
            if seen.limit is None and seen.grace_until is None:
                raise self._unknown_limit()

    def _unknown_limit(self) -> SemaphoreError:
        tasks = self._app.tasks.values() if self._app is not None else ()
        key = self._store.snapshot(any_key_of(self._claim.resource), waiters=1)
        return unknown_limit(self._claim, tasks, has_keys=key.limit is not None)


def not_held(permit: Permit) -> PermitLost:
    return PermitLost(f"{permit.holder}: this process does not hold the permit")


def extend(store: Store, permit: Permit) -> None:
    """Renew a permit; raise ``PermitLost``, and ``ResourceBusy`` if the store could not do it now."""
    if renewed(store, permit) is Renewal.LOST:
        msg = f"{permit.holder}: the lease ended, another holder may have the permit now"
        raise PermitLost(msg)


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
