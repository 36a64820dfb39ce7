"""Test the lines of a file to which another process is writing."""

from __future__ import annotations

from pathlib import Path

import pytest

from .lines import whole_lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [("", []), ("half", []), ("one\n", ["one"]), ("one\ntwo\nha", ["one", "two"])],
)
def test_a_line_that_has_not_ended(tmp_path: Path, text: str, lines: list[str]) -> None:
    path = tmp_path / "lines"
    path.write_text(text, "utf-8")
    assert whole_lines(path) == lines


def test_no_file(tmp_path: Path) -> None:
    assert whole_lines(tmp_path / "none") == []
