"""Make a PostgreSQL store from a Django project's settings: ``django://default`` is ``DATABASES["default"]``.

The store uses its own connections. On the project's connection a permit would be part of the user's transaction:
invisible to others before the commit, and lost after a rollback, while the task still runs.
"""

from __future__ import annotations

import re
from typing import Any

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.utils import ConnectionDoesNotExist, load_backend

from ..errors import ConfigurationError
from .options import StoreOptions
from .postgresql import PostgresStore
from .postgresql.url import parameters_from_url

# Parameters that Django sets for its own cursors; all others are for the driver.
_DJANGOS = ("context", "cursor_factory", "prepare_threshold", "client_encoding")


def from_url(url: str, options: StoreOptions) -> PostgresStore:
    """Make a store of the alias that a URL names; see ``store_from_url``."""
    alias, bounds = alias_of(url), parameters_from_url("postgresql://", options)
    parameters = bounds | _parameters(alias)
    return PostgresStore(parameters, options, origin=f"DATABASES[{alias!r}]", keeps=_is_no_test)


def alias_of(url: str) -> str:
    """Return the alias in DATABASES that a URL names."""
    alias = url.partition("://")[2].rstrip("/")
    if not alias or "/" in alias or "?" in alias:
        msg = f"semaphore_url={url!r} must name an entry of DATABASES and nothing else, as django://default does."
        raise ConfigurationError(msg)
    return alias


def _is_no_test() -> bool:
    """Return whether connections may stay open; an open one would prevent that a test drops its database."""
    return not hasattr(mail, "outbox")  # as documented by Django, only a test has it


def _parameters(alias: str) -> dict[str, Any]:
    """Return the driver's parameters that Django makes from its settings."""
    given = _settings(alias)
    wrapper = load_backend(given["ENGINE"]).DatabaseWrapper(given, alias)  # it never connects
    if wrapper.vendor != "postgresql":
        msg = (
            f"semaphore_url='django://{alias}': DATABASES[{alias!r}] is {wrapper.display_name}, and permits"
            " can be kept in PostgreSQL only. Name another entry, or set CELERY_SEMAPHORE_URL to redis://…"
        )
        raise ConfigurationError(msg)
    parameters = wrapper.get_connection_params()
    if role := given["OPTIONS"].get("assume_role"):
        parameters["options"] = f"{parameters.get('options', '')} -c role={_escaped(role)}".strip()
    return {name: value for name, value in parameters.items() if name not in _DJANGOS}


def _escaped(value: str) -> str:
    """Escape a value for libpq's ``options``, which are separated by spaces."""
    return re.sub(r"([\\\s])", r"\\\1", value)


def _settings(alias: str) -> dict[str, Any]:
    try:
        return dict(connections[alias].settings_dict)  # in a test those of the test database
    except ConnectionDoesNotExist as error:
        known = ", ".join(f"django://{name}" for name in connections)
        msg = f"semaphore_url='django://{alias}': DATABASES has no {alias!r}; it has {known}."
        raise ConfigurationError(msg) from error
    except ImproperlyConfigured as error:
        msg = f"semaphore_url='django://{alias}' needs a Django project: {error}"
        raise ConfigurationError(msg) from error
