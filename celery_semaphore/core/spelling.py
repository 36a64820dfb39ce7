"""Spelling: which name was probably meant."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

ALIKE = 0.8  # of difflib's ratio: one or two letters wrong, missing or swapped


def nearest(name: str, known: Collection[str], *, alike: float = ALIKE) -> str | None:
    """The known name that looks most like this one; None where none does."""
    return next(iter(get_close_matches(name, known, n=1, cutoff=alike)), None)
