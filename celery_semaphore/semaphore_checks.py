"""Check what a user gives to a Semaphore: annotations do not bind at run time."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from functools import partial
from shlex import quote
from typing import Any

from .core.claim import HIGHEST, Claim
from .core.key_template import GIVE_THE_KEY, is_template
from .core.limit import is_whole, limits_of_tasks
from .core.permit import Permit
from .errors import ConfigurationError, SemaphoreError
from .stores.options import StoreOptions

CANCEL = "cancel"  # on_lost of AsyncSemaphore: a body that lost its permit is cancelled


def check_permit(method: str, permit: object) -> None:
    if not isinstance(permit, Permit):
        msg = f"{method}({permit!r}): give it the permit that acquire() returned."
        raise ConfigurationError(msg)


def check_function(function: object) -> None:
    """Raise for an async or generator function: its body would run after the call, without the permit."""
    if _is_async(function):
        msg = f"Semaphore decorates functions that are not async, not {function!r}: AsyncSemaphore decorates this one."
        raise ConfigurationError(msg)
    if not callable(function) or any(map(inspect.isgeneratorfunction, _bodies(function))):
        msg = (
            f"Semaphore decorates functions that are no generators, not {function!r}. In a generator use"
            " `with semaphore:` in its body."
        )
        raise ConfigurationError(msg)


def check_async_function(function: object) -> None:
    """Raise for what is no async function and no async generator function: nothing of it would be awaited."""
    if not _is_async(function):
        msg = (
            f"AsyncSemaphore decorates async functions, not {function!r}: Semaphore decorates others, but no generators."
            " A class with an async method has it decorated there."
        )
        raise ConfigurationError(msg)


def _is_async(function: object) -> bool:
    return any(
        inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body)
        for body in _bodies(function)
    )


def _bodies(function: object) -> tuple[object, object]:
    """Return what may say how a call runs: the function, without a static method or partials, and its ``__call__``.

    An object may be marked async by itself, as those of Django's middleware.
    """
    while isinstance(function, staticmethod | partial):
        function = function.__func__ if isinstance(function, staticmethod) else function.func
    is_plain = inspect.isroutine(function) or isinstance(function, type)
    return function, None if is_plain else getattr(function, "__call__", None)  # noqa: B004 - to look at it


def check_on_lost(on_lost: object) -> None:
    """Raise for what AsyncSemaphore cannot do about a lost permit."""
    if on_lost not in (None, CANCEL) and not callable(on_lost):
        msg = (
            f"on_lost={on_lost!r} must be a function of the permit, an async one, or {CANCEL!r}, which cancels the"
            " body of the block."
        )
        raise ConfigurationError(msg)


def check_url(url: object) -> None:
    """Raise for a client, for example, in place of its URL."""
    if not isinstance(url, str):
        msg = f"url={url!r} must be the URL of a store, for example 'redis://localhost:6379/0'."
        raise ConfigurationError(msg)


def check_app(app: Any, prefix: str, lease: float) -> None:
    """Raise for what is no Celery app, without a look at its settings, and for what only its settings say."""
    if not callable(getattr(app, "config_from_object", None)):
        msg = f"app={app!r} must be a Celery app."
        raise ConfigurationError(msg)
    if (prefix, lease) != (StoreOptions.prefix, StoreOptions.lease):
        msg = "prefix= and lease= are for url=: with app=, its settings semaphore_prefix and semaphore_lease apply."
        raise ConfigurationError(msg)


def check(name: object, limit: object, key: object, weight: object) -> None:
    # Annotations do not bind a user.
    if not isinstance(name, str) or not name:
        msg = f"name={name!r} must be a semaphore's name."
        raise ConfigurationError(msg)
    if key is not None and not isinstance(key, str):
        msg = f"key={key!r} must be a string, or None."
        raise ConfigurationError(msg)
    if key is not None and is_template(key):
        msg = f"key={key!r} would be used literally: there is no call to fill it in. {GIVE_THE_KEY}"
        raise ConfigurationError(msg)
    for option, value, least in (("limit", limit, 0), ("weight", weight, 1)):
        if option == "limit" and value is None:  # the one in force holds
            continue
        if not is_whole(value) or not least <= value <= HIGHEST:
            msg = f"{option}={value!r} must be a whole number from {least} to {HIGHEST}."
            raise ConfigurationError(msg)
    if limit is not None and 0 < limit < weight:  # type: ignore[operator] # 0 admits none, whatever the weight
        msg = f"weight={weight!r} is above limit={limit!r}: there could never be a permit."
        raise ConfigurationError(msg)


def unknown_limit(claim: Claim, tasks: Iterable[Any], *, has_keys: bool) -> SemaphoreError:
    """Return the error for a claim with a limit that is not known; ``has_keys`` if one is known for all keys."""
    name = claim.semaphore
    declared = [limit for limit in limits_of_tasks(tasks) if limit.semaphore == name]
    if claim.key is None and (
        has_keys or (declared and all(each.key is not None for each in declared))
    ):
        msg = f"no limit is known for semaphore {name!r} without a key: its tasks use it with one, so give key=."
        return SemaphoreError(msg)
    at = "" if claim.key is None else " at this key"
    force = "" if declared else " --force"
    return SemaphoreError(
        f"no limit is known yet for semaphore {name!r}{at}: give limit=, or start the workers whose tasks declare it, or"
        f" set one: `celery -A your_app semaphore limit {quote(name)} N{force}`."
    )


def seconds(timeout: object) -> float:
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        msg = f"timeout={timeout!r} must be a number of seconds, 0 or more, or None."
        raise ConfigurationError(msg)
    return float(timeout)
