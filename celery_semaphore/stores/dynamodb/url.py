"""Read which table a URL names, and how it is reached."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import ConfigurationError
from ..options import DEFAULTS

if TYPE_CHECKING:
    from ..options import StoreOptions

_OPTIONS = ("endpoint_url", "profile")
_REGION = re.compile(r"[a-z][a-z0-9-]+")
_TABLE = re.compile(r"[A-Za-z0-9_.-]{3,255}")
FORM = "dynamodb://<region>/<table>, such as dynamodb://eu-west-1/celery-semaphore"


@dataclass(frozen=True)
class Place:
    """A table, and how it is reached; there is no password in it."""

    region: str
    table: str
    endpoint_url: str | None = None
    profile: str | None = None

    def __str__(self) -> str:
        at = f" at {self.endpoint_url}" if self.endpoint_url else ""
        return f"table {self.table} in {self.region}{at}"


def place_from_url(url: str, options: StoreOptions) -> Place:
    """Return the table that a URL names; without one, it is named after the prefix of the settings."""
    rest = url.partition("://")[2]
    if "@" in rest:
        msg = (
            "semaphore_url has a key of AWS: leave it out, and give it as boto3 finds it, in the environment, in a"
            f" profile, or by the role of the host. The form is {FORM}."
        )
        raise ConfigurationError(msg)
    region, _, table = rest.removesuffix("/").partition("/")
    if table and options.prefix != DEFAULTS.prefix:
        msg = (
            f"semaphore_url={url!r} names the table, and semaphore_prefix={options.prefix!r} another one: leave out"
            " one of them."
        )
        raise ConfigurationError(msg)
    table = table or options.prefix
    if not (_REGION.fullmatch(region) and _TABLE.fullmatch(table)):
        raise ConfigurationError(f"semaphore_url={url!r} does not have the form {FORM}.")
    return Place(region, table, *_reached_by(options))


def _reached_by(options: StoreOptions) -> list[str | None]:
    given = options.transport_options
    if unknown := sorted(given.keys() - {*_OPTIONS}):
        msg = (
            f"semaphore_transport_options has {', '.join(map(repr, unknown))}; for dynamodb:// it can have"
            f" {' and '.join(map(repr, _OPTIONS))}."
        )
        raise ConfigurationError(msg)
    return [str(given[name]) if given.get(name) else None for name in _OPTIONS]
