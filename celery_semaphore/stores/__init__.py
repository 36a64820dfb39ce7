"""Make a store from a URL: the scheme selects the module, and its driver is imported only when it is used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from ..errors import ConfigurationError

if TYPE_CHECKING:
    from ..core.store import Store

Ssl = Mapping[str, Any] | bool | None

# scheme → module, and the driver's package for pip, which does not depend on how this library was installed
_MEMORY = ("memory", "")
_REDIS = ("redis", "'celery[redis]'")
_POSTGRESQL = ("postgresql", "'psycopg[binary]'")
_STORES = {
    "memory": _MEMORY,
    "redis": _REDIS,
    "rediss": _REDIS,
    "valkey": _REDIS,
    "valkeys": _REDIS,
    "unix": _REDIS,
    "socket": _REDIS,
    "redis+socket": _REDIS,
    "sentinel": _REDIS,
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "django": ("django", "django 'psycopg[binary]'"),
}


def store_from_url(
    url: str,
    *,
    prefix: str = "celery-semaphore",
    lease: float = 30.0,
    take_up: float | None = None,
    timeout: float = 2.0,
    transport_options: Mapping[str, Any] | None = None,
    ssl: Ssl = None,
) -> Store:
    """Make the store that this URL names; it connects when it is used.

    ``take_up`` is how long the grant of a sent message lasts (default: a lease). ``timeout`` bounds each answer and
    each connection attempt, in seconds. ``transport_options`` and ``ssl`` have the form of Celery's broker settings.
    """
    module, package = _found(url)
    try:
        stores = import_module(f"{__name__}.{module}")
    except ImportError as error:
        if error.name and error.name.startswith(__name__):
            raise
        msg = f"{url.partition(':')[0]}:// needs a driver that is missing ({error}): pip install {package}"
        raise ConfigurationError(msg) from error
    made = stores.from_url(
        url,
        prefix=prefix,
        lease=lease,
        take_up=take_up,
        timeout=timeout,
        transport_options=transport_options or {},
        ssl=ssl,
    )
    return cast("Store", made)


def _found(url: str) -> tuple[str, str]:
    scheme = url.partition("://")[0]
    # Accept the form of SQLAlchemy and Celery's result backend: db+postgresql+psycopg://
    base = scheme.removeprefix("db+")
    base = base if base in _STORES else base.partition("+")[0]
    if "://" not in url or base not in _STORES:
        known = ", ".join(f"{known}://" for known in _STORES)
        begins = f"the scheme {scheme!r}" if "://" in url else "no scheme"
        msg = f"semaphore_url has {begins}; known are {known}."
        raise ConfigurationError(msg)
    return _STORES[base]
