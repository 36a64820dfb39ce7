"""Make a store from a Django project's settings: ``django://default`` is ``DATABASES["default"]``.

The store uses its own connections. On the project's connection a permit would be part of the user's transaction:
invisible to others before the commit, and lost after a rollback, while the task still runs.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any

from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.db.utils import ConnectionDoesNotExist, load_backend

from ..errors import ConfigurationError
from .options import StoreOptions
from .sql.dialects import Dialect
from .sql.mysql import Mysql
from .sql.sqlite import Sqlite
from .sql.store import SqlStore

if TYPE_CHECKING:
    from .postgresql import PostgresStore

# Parameters that Django sets for its own cursors; all others are for the driver.
_DJANGOS = ("context", "cursor_factory", "prepare_threshold", "client_encoding")
_NO_FILE = (
    "{setting} is a database in the memory of one connection, and permits need one that all processes share: give it a"
    " file for a NAME, or set CELERY_SEMAPHORE_URL to redis://…"
)
_SHARED = (
    "Permits are in the file of DATABASES['default']: a transaction of the project that reads before it writes fails at"
    " once with 'database is locked' if a permit was written meanwhile. Give permits a file of their own, as an entry"
    ' of DATABASES that CELERY_SEMAPHORE_URL names, or set OPTIONS={"transaction_mode": "IMMEDIATE"} (Django 5.1).'
)
_UNKNOWN = (
    "{setting} is {name}, and permits can be kept in PostgreSQL, MySQL, MariaDB or SQLite. Name another entry, or set"
    " CELERY_SEMAPHORE_URL to redis://…"
)


def from_url(url: str, options: StoreOptions) -> PostgresStore | SqlStore:
    """Make a store of the alias that a URL names; see ``store_from_url``."""
    alias = alias_of(url)
    given = _settings(alias)
    try:
        wrapper = load_backend(given["ENGINE"]).DatabaseWrapper(given, alias)  # it never connects
    except ImproperlyConfigured as error:
        msg = f"semaphore_url='django://{alias}': {error}"
        raise ConfigurationError(msg) from error
    if wrapper.vendor == "postgresql":
        return _on_postgresql(wrapper, alias, options)
    dialect = dialect_of(wrapper, alias)
    return SqlStore(dialect, options, origin=f"DATABASES[{alias!r}]", keeps=_is_no_test)


def alias_of(url: str) -> str:
    """Return the alias in DATABASES that a URL names."""
    alias = url.partition("://")[2].rstrip("/")
    if not alias or "/" in alias or "?" in alias:
        msg = f"semaphore_url={url!r} must name an entry of DATABASES and nothing else, as django://default does."
        raise ConfigurationError(msg)
    return alias


def dialect_of(wrapper: Any, alias: str) -> Dialect:
    """Return the dialect of a database that is not PostgreSQL, by Django's object for it."""
    setting = f"semaphore_url='django://{alias}': DATABASES[{alias!r}]"
    if wrapper.vendor == "mysql":
        parameters = wrapper.get_connection_params()
        parameters.pop("conv", None)  # for columns that this table does not have
        return Mysql(wrapper.Database, parameters)
    if wrapper.vendor != "sqlite":
        raise ConfigurationError(_UNKNOWN.format(setting=setting, name=wrapper.display_name))
    parameters = wrapper.get_connection_params()
    if parameters["database"] == ":memory:":
        raise ConfigurationError(_NO_FILE.format(setting=setting))
    shared = [_SHARED] if _is_shared(str(parameters["database"])) else []
    return Sqlite({name: parameters[name] for name in ("database", "uri")}, shared)


def _is_shared(path: str) -> bool:
    """Return whether the project writes to this file, too, in transactions that may fail because of a permit."""
    default = connections.settings["default"]
    if str(default["OPTIONS"].get("transaction_mode")).upper() == "IMMEDIATE":
        return False
    return os.path.realpath(str(default["NAME"])) == os.path.realpath(path)


def _is_no_test() -> bool:
    """Return whether connections may stay open; an open one would prevent that a test drops its database."""
    return not hasattr(mail, "outbox")  # as documented by Django, only a test has it


def _on_postgresql(wrapper: Any, alias: str, options: StoreOptions) -> PostgresStore:
    from .postgresql import PostgresStore  # noqa: PLC0415 - needs psycopg
    from .postgresql.url import parameters_from_url  # noqa: PLC0415 - likewise

    parameters = parameters_from_url("postgresql://", options) | _parameters(wrapper)
    return PostgresStore(parameters, options, origin=f"DATABASES[{alias!r}]", keeps=_is_no_test)


def _parameters(wrapper: Any) -> dict[str, Any]:
    """Return the driver's parameters that Django makes from its settings."""
    parameters = wrapper.get_connection_params()
    if role := wrapper.settings_dict["OPTIONS"].get("assume_role"):
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
