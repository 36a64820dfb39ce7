"""Check the durations that a user gives."""

from __future__ import annotations

from ..errors import ConfigurationError

SHORTEST_LEASE_S = 1.0  # a shorter lease would end between two renewals of a busy worker


def positive(option: str, value: object) -> float:
    """Return the value of this option in seconds; raise ``ConfigurationError`` with its name."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        msg = f"{option}={value!r} must be a number of seconds above 0."
        raise ConfigurationError(msg)
    return float(value)


def lease_of(value: object) -> float:
    """Return a lease in seconds; raise ``ConfigurationError`` for one that no busy process renews in time."""
    seconds = positive("lease", value)
    if seconds < SHORTEST_LEASE_S:
        msg = f"lease={value!r} must be a number of seconds, {SHORTEST_LEASE_S:g} or more."
        raise ConfigurationError(msg)
    return seconds
