"""Check the durations that a user gives."""

from __future__ import annotations

from ..errors import ConfigurationError


def positive(option: str, value: object) -> float:
    """Return the value of this option in seconds; raise ``ConfigurationError`` with its name."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        msg = f"{option}={value!r} must be a number of seconds above 0."
        raise ConfigurationError(msg)
    return float(value)
