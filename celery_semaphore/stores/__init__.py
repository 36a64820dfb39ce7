"""Make a store from a URL: the scheme selects the module, and its driver is imported only when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, cast

from ..errors import ConfigurationError
from .options import DEFAULTS, StoreOptions

if TYPE_CHECKING:
    from ..core.store import Store

# scheme → module, and the extras of this package that bring its driver
_MEMORY = ("memory", "")
_REDIS = ("redis", "redis")
_POSTGRESQL = ("postgresql", "postgresql")
_DYNAMODB = ("dynamodb", "dynamodb")
_STORES = {
    "memory": _MEMORY,
    "redis": _REDIS,
    "rediss": _REDIS,
    "valkey": _REDIS,
    "valkeys": _REDIS,
    "unix": _REDIS,
    "socket": _REDIS,
    "redis+socket": _REDIS,
    "redis+cluster": _REDIS,
    "rediss+cluster": _REDIS,
    "valkey+cluster": _REDIS,
    "valkeys+cluster": _REDIS,
    "sentinel": _REDIS,
    "postgresql": _POSTGRESQL,
    "postgres": _POSTGRESQL,
    "django": ("django", "django,postgresql"),
    "dynamodb": _DYNAMODB,
}


def store_from_url(url: str, options: StoreOptions = DEFAULTS) -> Store:
    """Make the store that this URL names; it connects when it is used."""
    module, extras = _found(url)
    try:
        return cast("Store", import_module(f"{__name__}.{module}").from_url(url, options))
    except ImportError as error:
        if error.name and error.name.startswith(__name__):
            raise
        msg = f"{url.partition(':')[0]}:// needs a driver that is missing ({error}): pip install 'celery-semaphore[{extras}]'"
        raise ConfigurationError(msg) from error


def _found(url: str) -> tuple[str, str]:
    scheme = url.partition("://")[0]
    # Accept the form of SQLAlchemy and Celery's result backend: db+postgresql+psycopg://
    base = scheme.removeprefix("db+")
    base = base if base in _STORES else base.partition("+")[0]
    if "://" not in url or base not in _STORES:
        known = ", ".join(f"{known}://" for known in _STORES)
        begins = f"the scheme {scheme!r}" if "://" in url else "no scheme"
        msg = f"semaphore_url has {begins}; known schemes: {known}."
        raise ConfigurationError(msg)
    return _STORES[base]
