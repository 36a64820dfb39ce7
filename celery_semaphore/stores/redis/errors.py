"""Tell the errors of redis-py apart, and translate them into the library's own."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

import redis

from ...core.formats import NewerFormat
from ...errors import SemaphoreError, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

NEWER = "NEWERFORMAT "  # begins the error of a script in a store of a newer format
OTHER_LEASE = "OTHERLEASE "  # begins the error of a script that was given other durations than the store keeps

# The codes that redis-py replaces by classes.
_CLASSES: dict[str, type[redis.RedisError]] = {
    "READONLY": redis.exceptions.ReadOnlyError,
    "LOADING": redis.exceptions.BusyLoadingError,
    "MASTERDOWN": redis.exceptions.MasterDownError,
    "NOSCRIPT": redis.exceptions.NoScriptError,
    "OOM": redis.exceptions.OutOfMemoryError,
    "MOVED": redis.exceptions.MovedError,
    "ASK": redis.exceptions.AskError,
    "TRYAGAIN": redis.exceptions.TryAgainError,
    "CLUSTERDOWN": redis.exceptions.ClusterDownError,
}
_CODES: dict[type[Exception], str] = {kind: f"{code} " for code, kind in _CLASSES.items()}

# After one of these a call is repeated over a new connection: the server has changed its role or the node, or starts.
_MOVED = ("READONLY", "LOADING", "MASTERDOWN", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")


def is_transient(error: redis.RedisError) -> bool:
    """Return whether the call may succeed over a new connection."""
    if isinstance(error, redis.ResponseError):
        return said(error).startswith(_MOVED)
    return isinstance(error, (redis.ConnectionError, redis.TimeoutError))


def said(error: Exception) -> str:
    """Return the server's error text, with the code that redis-py replaces by a class for some errors."""
    return _CODES.get(type(error), "") + str(error)


def by_class(error: redis.ResponseError) -> redis.RedisError:
    """Return the error with the class of its code.

    redis-py before 6 gives the classes of a Cluster to the connections of its own client for one alone.
    """
    code, _, rest = str(error).partition(" ")
    kind = _CLASSES.get(code) if type(error) is redis.ResponseError else None
    return error if kind is None else kind(rest)


# An error of the script itself is final, unlike one that the server's state or its operator caused.
_OF_A_SCRIPT = re.compile(r"\buser_script\b|^WRONGTYPE\b")
_PASSES = re.compile(
    r"(?:^|\s-?)(?:NOAUTH|WRONGPASS|NOPERM|OOM|MISCONF|READONLY|LOADING|MASTERDOWN|BUSY|NOREPLICAS|CLUSTERDOWN"
    r"|TRYAGAIN|MOVED|ASK|UNKILLABLE|EXECABORT|NOSCRIPT)\b"
    r"|^Script killed|^ACL failure|The user executing the script can't|max number of clients"
)
_FULL = re.compile(r"(?:^|\s-?)OOM\b")  # within the error of a script, too


def is_final(reason: str) -> bool:
    """Return whether the server would always give the same answer, so that a retry is useless."""
    return bool(_OF_A_SCRIPT.search(reason)) and not passes(reason)


def passes(reason: str) -> bool:
    """Return whether the server refused because of its state or its operator."""
    return bool(_PASSES.search(reason))


def is_of_handshake(error: redis.TimeoutError) -> bool:
    """Return whether a server did not answer in TLS; for a connection of TLS."""
    cause: BaseException | None = error
    while cause and "handshake operation timed out" not in str(cause):
        cause = cause.__cause__ or cause.__context__
    return cause is not None


def durations_in(answer: object) -> tuple[int, int] | None:
    """Return the durations that the store keeps, if this is the error of a call that brought others."""
    if not isinstance(answer, redis.ResponseError) or not str(answer).startswith(OTHER_LEASE):
        return None
    lease, take_up = str(answer).removeprefix(OTHER_LEASE).split()
    return int(lease), int(take_up)


@contextmanager
def translated() -> Iterator[None]:
    """Translate errors of the driver into the library's own; none of them shows a password."""
    try:
        yield
    except redis.RedisError as error:
        reason = said(error) or type(error).__name__
        if isinstance(error, redis.ResponseError) and is_final(reason):
            msg = f"The store cannot take what it was given: {reason}"
            raise SemaphoreError(msg) from error
        if reason.startswith(NEWER):
            raise NewerFormat("the store", int(reason.removeprefix(NEWER))) from error
        notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
        is_refused = isinstance(error, (redis.ResponseError, redis.AuthenticationError))
        what = "refused the call" if is_refused else "did not answer"
        msg = f"The store {what}: {reason}{notes}"
        unavailable = StoreFull if _FULL.search(reason) else StoreUnavailable
        raise unavailable(msg, reason) from error
