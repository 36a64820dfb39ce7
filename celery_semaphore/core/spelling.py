"""Find the name that was probably meant by a misspelt one."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

ALIKE = 0.8  # of difflib's ratio: one or two letters wrong, missing or swapped


def nearest(name: str, known: Collection[str], *, alike: float = ALIKE) -> str | None:
    """Return the known name that is most like this one; None if none is."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=alike)), None)
