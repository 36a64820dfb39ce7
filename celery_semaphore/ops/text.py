"""Render a name, a duration and a sentence for a terminal."""

from __future__ import annotations

from unicodedata import combining, east_asian_width

from .views import ResourceView

MINUTE, HOUR = 60.0, 3600.0
NOTHING = "-"


def sentence(text: str) -> str:
    """Return the text as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}."


def duration(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds < 2 * MINUTE:
        return f"{seconds:.1f} s"
    return f"{seconds / MINUTE:.0f} min" if seconds < 2 * HOUR else f"{seconds / HOUR:.1f} h"


def printable(text: str) -> str:
    """Return the text, escaped if it has control characters: a key may be any text, and must not control a terminal."""
    return text if text.isprintable() and text else ascii(text)


def width(text: str) -> int:
    """Return how many columns of a terminal the text takes: two for a wide character, none for a combining one."""
    wide = sum(east_asian_width(each) in "WF" for each in text)
    return len(text) + wide - sum(bool(combining(each)) for each in text)


def place(view: ResourceView) -> str:
    return name_of(view.semaphore, view.key)


def name_of(semaphore: str, key: str | None) -> str:
    name = printable(semaphore)
    return name if key is None else f"{name} at key {printable(key)}"
