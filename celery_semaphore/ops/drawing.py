"""Draw the state of semaphores for a terminal: bars, and colours. A pipe or a file gets plain text.

Celery removes the colours where it prints them, by ``--no-color`` or NO_COLOR (https://no-color.org).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from .views import ResourceView, SemaphoreView, View

CELLS = 10  # of a bar
USED, FREE = "█", "░"
ASCII = {USED: "#", FREE: "."}  # for an encoding without blocks


def is_drawn() -> bool:
    """Return whether the output is a terminal that can draw."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def bar(view: View) -> str:
    """Return the share of the permits in use; empty where no single limit is in force, as for a semaphore with keys."""
    limit = _limit(view)
    if not limit:
        return ""
    # The first permit shows, and the last free one does, too.
    full = min(view.occupied, limit) * CELLS / limit
    used = CELLS if view.occupied >= limit else min(int(full) or int(full > 0), CELLS - 1)
    drawn = USED * used + FREE * (CELLS - used)
    try:
        drawn.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return "".join(map(ASCII.__getitem__, drawn))
    return drawn


def coloured(line: str, view: View) -> str:
    """Return the line in red for a pause, in yellow where tasks wait because no permit is free, else as it is."""
    if view.paused:
        return click.style(line, fg="red")
    return click.style(line, fg="yellow") if view.saturated else line


def drawn_line(line: str, view: ResourceView) -> str:
    """Return the line with the bar and the colour of its view."""
    return coloured(" ".join(filter(None, [bar(view), line])), view)


def drawn(text: str, views: Sequence[View]) -> str:
    """Return the table with a bar and the colour of each row's view; its first line has the headings."""
    head, *rows = text.split("\n")
    bars = [bar(view) for view in views]
    gap = CELLS + 1 if any(bars) else 0
    lines = [
        coloured(each.ljust(gap) + row, view)
        for each, row, view in zip(bars, rows, views, strict=True)
    ]
    return "\n".join([click.style(" " * gap + head, bold=True), *lines])


def _limit(view: View) -> int | None:
    if isinstance(view, SemaphoreView):
        return view.limits[0] if len(view.limits) == 1 and not view.keys else None
    return None if isinstance(view, ResourceView) and view.for_each_key else view.limit
