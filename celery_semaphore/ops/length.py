"""Parse a length of time as an operator writes it."""

from __future__ import annotations

import re

from ..errors import SemaphoreError

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
LONGEST_S = 366 * SECONDS["d"]  # a mistyped length must not be a pause for ever
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([smhd])")


def length(text: str) -> float:
    """Return the seconds of a text such as 90s, 10m, 1.5h or 2d; raise ``SemaphoreError`` for any other."""
    seconds = _seconds(text)
    if seconds is None:
        msg = f"a pause lasts for a number with s, m, h or d behind it, such as 10m, not {text[:20]!r}."
        raise SemaphoreError(msg)
    if not 0 < seconds <= LONGEST_S:
        msg = (
            f"a pause lasts for more than 0s and at most 366d, such as 10m, not {text[:20]!r}; without a length it lasts"
            " until it is resumed."
        )
        raise SemaphoreError(msg)
    return seconds


def seconds_of(text: str) -> float | None:
    """Return the seconds of such a text, or of a number without a unit; None for any other."""
    try:
        return float(text)
    except ValueError:
        return _seconds(text)


def _seconds(text: str) -> float | None:
    found = _LENGTH.fullmatch(text.strip())
    return float(found[1]) * SECONDS[found[2]] if found else None
