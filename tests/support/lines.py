"""Lines: read what other processes append to a file, a line in each write."""

from __future__ import annotations

from pathlib import Path


def whole_lines(path: Path) -> list[str]:
    """Return the lines that have ended; none if there is no such file yet.

    A reader may see the first part of a write, since the kernel copies it page by page.
    """
    text = path.read_text("utf-8") if path.exists() else ""
    return text[: text.rfind("\n") + 1].splitlines()
