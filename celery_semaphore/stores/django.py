"""PostgreSQL as a Django project describes it: ``django://default`` is ``DATABASES["default"]``.

Over connections of its own. On the project's a permit would be part of the user's transaction: seen by nobody
before its end, and gone after a rollback, while the task believes that it holds one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.utils import ConnectionDoesNotExist, load_backend

from ..errors import ConfigurationError
from .postgresql import PostgresStore
from .postgresql.schema import SchemaName
from .postgresql.url import parameters_from_url

# What Django sets for its own cursors; all else is the driver's.
_DJANGOS = ("context", "cursor_factory", "prepare_threshold", "client_encoding")


def from_url(
    url: str,
    *,
    prefix: str,
    lease: float,
    take_up: float | None,
    timeout: float,
    transport_options: Mapping[str, Any],
    ssl: Mapping[str, Any] | bool | None,
) -> PostgresStore:
    """Make a store of the alias that a URL names; see ``store_from_url``."""
    alias, bounds = alias_of(url), parameters_from_url("postgresql://", timeout=timeout, ssl=ssl)
    return PostgresStore(
        bounds | _parameters(alias),
        place=schema_of(prefix, transport_options),
        lease=lease,
        take_up=take_up,
        timeout=timeout,
        origin=f"DATABASES[{alias!r}]",
        keeps=_is_no_test,
    )


def alias_of(url: str) -> str:
    """The entry of DATABASES that a URL names."""
    alias = url.partition("://")[2].rstrip("/")
    if not alias or "/" in alias or "?" in alias:
        msg = f"semaphore_url={url!r} must name an entry of DATABASES and nothing else, as django://default does."
        raise ConfigurationError(msg)
    return alias


def schema_of(prefix: str, transport_options: Mapping[str, Any]) -> SchemaName:
    """The schema is named as the prefix is, unless the transport option ``schema`` names another one."""
    return SchemaName(
        transport_options.get("schema", prefix.replace("-", "_")),
        transport_options.get("table_prefix", ""),
    )


def _is_no_test() -> bool:
    """In tests the database is dropped at the end, which a connection that somebody keeps would prevent."""
    return not hasattr(mail, "outbox")  # by Django's documentation only a test has one


def _parameters(alias: str) -> dict[str, Any]:
    """The driver's parameters, as Django makes them of its settings."""
    given = _settings(alias)
    wrapper = load_backend(given["ENGINE"]).DatabaseWrapper(given, alias)  # never connected
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
    """As libpq wants it in ``options``, where spaces separate."""
    return re.sub(r"([\\\s])", r"\\\1", value)


def _settings(alias: str) -> dict[str, Any]:
    try:
        return dict(connections[alias].settings_dict)  # in tests, of the test database
    except ConnectionDoesNotExist as error:
        known = ", ".join(f"django://{name}" for name in connections)
        msg = f"semaphore_url='django://{alias}': DATABASES has no {alias!r}; it has {known}."
        raise ConfigurationError(msg) from error
    except ImproperlyConfigured as error:
        msg = f"semaphore_url='django://{alias}' needs a Django project: {error}"
        raise ConfigurationError(msg) from error
