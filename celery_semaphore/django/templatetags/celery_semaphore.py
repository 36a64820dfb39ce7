"""Provide the template filters of the admin's pages."""

from __future__ import annotations

from django import template

from ...ops.answers import why_in_force
from ..text import meant, shown, spelt

TENTHS = 10.0  # seconds below which tenths are shown

register = template.Library()
register.filter("shown", shown)
register.filter("spelt", spelt)
register.filter("meant", meant)
register.filter("why_in_force", why_in_force)


@register.filter  # type: ignore[untyped-decorator]
def duration(seconds: float | None) -> str:
    if seconds is None:
        return "\u2013"
    if seconds < TENTHS:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for unit, part, size in (("d", "h", 86400), ("h", "min", 3600), ("min", "s", 60)):
        if whole >= size:
            rest = whole % size // {"h": 3600, "min": 60, "s": 1}[part]
            return f"{whole // size} {unit} {rest} {part}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"
