"""Semaphore for users: the core's class, with the store that a URL names."""

from __future__ import annotations

from .core import semaphore
from .core.held_permits import OnLost
from .core.seconds import positive
from .core.store import Store
from .errors import ConfigurationError
from .stores import store_from_url

_opened: dict[tuple[str, str, float], Store] = {}
instead: list[Store] = []  # for tests: the last one replaces the store of every URL


class Semaphore(semaphore.Semaphore):
    __doc__ = semaphore.Semaphore.__doc__

    def __init__(
        self,
        name: str,
        limit: int,
        *,
        key: str | None = None,
        weight: int = 1,
        url: str | None = None,
        store: Store | None = None,
        prefix: str = "celery-semaphore",
        lease: float = 30.0,
        timeout: float | None = None,
        on_lost: OnLost | None = None,
    ) -> None:
        """Keep permits in the store of ``url``, or in a ``store`` of your own.

        ``prefix`` and ``lease`` belong to ``url``, and must equal the workers' ``semaphore_prefix`` and
        ``semaphore_lease``.
        """
        if (url is None) == (store is None):
            msg = "Semaphore needs url= or store=, and not both: where permits are kept."
            raise ConfigurationError(msg)
        positive("lease", lease)
        self._has_url = url is not None
        super().__init__(
            name,
            limit,
            store=_store(url, prefix, lease) if store is None else store,
            key=key,
            weight=weight,
            timeout=timeout,
            on_lost=on_lost,
        )

    @property
    def _store(self) -> Store:
        return instead[-1] if instead and self._has_url else super()._store


def _store(url: str | None, prefix: str, lease: float) -> Store:
    """Return one store for all semaphores of a process with the same URL, so that one keeper renews all permits."""
    where = (str(url), prefix, lease)
    if where not in _opened:
        _opened.setdefault(where, store_from_url(where[0], prefix=prefix, lease=lease))
    return _opened[where]
