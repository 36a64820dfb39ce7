"""A mutant is found whatever comments and indentation its file has there."""

from __future__ import annotations

from pathlib import Path

import pytest

from .mutant import Mutant

TEXT = "    if a:\n        b()\n        c = 1\n"
INSTEAD = "    if a:\n        c = 2\n"
PYTHON = [
    "def f():\n    if a:\n        b()\n        c = 1\n",
    "def f():\n    if a:  # why\n        # more\n\n        b()  # and 'this'\n        c = 1  # end\n",
    "class A:\n    def f():\n        if a:\n            b()   \n            c = 1\n",
]


@pytest.mark.parametrize("source", PYTHON)
def test_python(tmp_path: Path, source: str) -> None:
    (tmp_path / "a.py").write_text(source)
    Mutant("name", "why", "a.py", TEXT, INSTEAD, ()).strike(tmp_path)
    there: dict[str, object] = {"a": True, "b": None}
    after = (tmp_path / "a.py").read_text()
    exec(after, there)  # noqa: S102 - what was written here
    assert "c = 2" in after
    assert "b()" not in after


@pytest.mark.parametrize("suffix", [".lua", ".sql"])
@pytest.mark.parametrize(
    "source",
    ["x := 1\ny := 2\n", "  x := 1 -- one\n  -- two\n\n  y := 2 -- '\n", "x := 1\n    y := 2  \n"],
)
def test_lua_and_sql(tmp_path: Path, suffix: str, source: str) -> None:
    (tmp_path / f"a{suffix}").write_text(source)
    Mutant("name", "why", f"a{suffix}", "x := 1\ny := 2", "x := 3", ()).strike(tmp_path)
    assert (tmp_path / f"a{suffix}").read_text().split(" --")[0].strip() == "x := 3"


def test_comments_of_the_mutant_itself_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "a.lua").write_text("if a then -- another\n    b()\nend\n")
    Mutant("name", "why", "a.lua", "if a then -- one\n", "if true then\n", ()).strike(tmp_path)
    assert (tmp_path / "a.lua").read_text().split() == [
        "if",
        "true",
        "then",
        "--",
        "another",
        "b()",
        "end",
    ]


def test_a_mark_in_a_text_is_no_comment(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('x = "# 1"\n')
    Mutant("name", "why", "a.py", '"# 1"', '"# 2"', ()).strike(tmp_path)
    assert (tmp_path / "a.py").read_text() == 'x = "# 2"\n'


def test_a_part_of_a_line_keeps_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = a and b  # why\n")
    Mutant("name", "why", "a.py", " and b", "", ()).strike(tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = a   # why\n"
