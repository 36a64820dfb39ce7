"""Check and convert what operators decide: limits and pauses. Times are whole microseconds of the store's clock."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from ..core.claim import HIGHEST
from ..core.decision import Decision, Pause
from ..core.key import is_resource_name
from .encoding import check_name, microseconds, seconds

ENDLESS = 9_000_000_000_000_000  # the end of a pause that lasts until it is resumed; a double counts it exactly


def check_limit(limit: int | None, resource: str) -> None:
    """Raise ``ValueError`` for a limit or a resource that an operator cannot set."""
    if limit is not None and not 0 <= limit <= HIGHEST:
        msg = f"a limit is a whole number from 0 to {HIGHEST}, not {limit!r}"
        raise ValueError(msg)
    check_resource(resource)


def check_declared(limits: Mapping[str, int], by: str) -> None:
    """Raise for a limit, a resource or a name that not every store can keep."""
    check_name("process", by)
    for resource, limit in limits.items():
        check_limit(limit, resource.removesuffix("//"))  # all_keys_of


def check_resource(resource: str) -> None:
    """Raise ``ValueError`` for a name that no resource has."""
    if not is_resource_name(resource):
        msg = f"no resource is named {resource!r}: resource_name() makes its name"
        raise ValueError(msg)


def length_of_pause(resource: str, lasts: float | None) -> int | None:
    """Return the length of a pause, None if it has none; raise ``ValueError`` for what cannot be paused."""
    check_resource(resource)
    if lasts is None:
        return None
    if not 0 < lasts < inf:
        msg = f"a pause lasts for a positive number of seconds, or None, not {lasts!r}"
        raise ValueError(msg)
    return microseconds(lasts)


def until(ends: int | None) -> float | None:
    """Return the end of a pause in seconds: infinity for an endless one, None for none."""
    return None if ends is None else inf if ends >= ENDLESS else seconds(ends)


def decision(
    now: int,
    limit: int | None,
    limited_at: int | None,
    ends: int | None,  # of its pause
    paused_at: int | None,
) -> Decision | None:
    """Return what was decided for one name, without a pause that has ended; or None if nothing is left."""
    pause = None
    if paused_at is not None and ends is not None and ends > now:
        pause = Pause(_age(now, paused_at), None if ends >= ENDLESS else seconds(ends - now))
    if limit is None and pause is None:
        return None
    return Decision(limit, None if limited_at is None else _age(now, limited_at), pause)


def _age(now: int, since: int) -> float:
    return max(0.0, seconds(now - since))  # the clock may step back
