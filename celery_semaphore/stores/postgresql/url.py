"""Convert a URL in the form of Celery or SQLAlchemy to the driver's parameters."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ...errors import ConfigurationError

if TYPE_CHECKING:
    from ..options import StoreOptions

_PASSWORD = re.compile(r"((?:^|[?&])(?:password|sslpassword)=)[^&]*")
SHORTEST = 2  # seconds: libpq's minimum for connect_timeout


def parameters_from_url(url: str, options: StoreOptions) -> dict[str, Any]:
    """Return parameters of libpq with timeouts; a read-only server is skipped."""
    plain = "postgresql://" + url.partition("://")[2]
    try:
        given = conninfo_to_dict(plain)
    except psycopg.Error as error:
        msg = f"semaphore_url {redacted(url)!r} cannot be read: {type(error).__name__}"
        raise ConfigurationError(msg) from None  # its text may show the password
    _check_ports(url, str(given.get("port", "")))
    defaults: dict[str, Any] = {
        "application_name": "celery_semaphore",
        "connect_timeout": max(SHORTEST, round(options.timeout)),
        "target_session_attrs": "read-write",
        "keepalives_idle": 30,
    }
    if isinstance(options.ssl, dict):
        defaults |= options.ssl
    elif options.ssl:
        defaults["sslmode"] = "require"
    return defaults | given


def _check_ports(url: str, ports: str) -> None:
    """Raise for a port that is not a number: the driver would look it up as the name of a service."""
    if not all(port.isdecimal() for port in ports.split(",") if port):
        msg = (
            f"semaphore_url {redacted(url)!r} cannot be read: the port is not a number"
            " (in a password, write / as %2F, ? as %3F, # as %23 and @ as %40)"
        )
        raise ConfigurationError(msg)


def redacted(url: str) -> str:
    """Return the URL without its passwords."""
    scheme, separator, rest = url.partition("://")
    userinfo, at, place = rest.rpartition("@")
    if "=" in userinfo.partition("?")[2]:  # the @ is of a password in the query
        return f"{scheme}{separator}***"
    hidden = f"{userinfo.partition(':')[0]}:***@" if at else ""
    return scheme + separator + hidden + _PASSWORD.sub(r"\1***", place)
