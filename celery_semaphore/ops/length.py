"""Parse how long a pause shall last, as an operator writes it."""

from __future__ import annotations

import re

from ..errors import SemaphoreError

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) ?([smhd])")


def length(text: str) -> float:
    """Return the seconds of a text such as 90s, 10m, 1.5h or 2d; raise ``SemaphoreError`` for any other."""
    found = _LENGTH.fullmatch(text.strip())
    seconds = float(found[1]) * SECONDS[found[2]] if found else 0.0
    if not seconds:
        msg = f"a pause lasts for a number with s, m, h or d behind it, such as 10m, not {text[:20]!r}."
        raise SemaphoreError(msg)
    return seconds
