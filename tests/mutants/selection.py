"""Selections of tests, as pytest is given them: paths, then perhaps ``-k`` and an expression."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

Selection: TypeAlias = tuple[str, ...]


def split(tests: Selection) -> tuple[Selection, str]:
    """The paths, and the expression or nothing."""
    if "-k" not in tests:
        return tests, ""
    *paths, _, expression = tests
    return tuple(paths), expression


def joined(selections: Iterable[Selection]) -> list[Selection]:
    """As few selections as have all tests of these. One that has no test is not noticed."""
    parts = [split(tests) for tests in sorted(selections)]
    whole = dict.fromkeys(path for paths, expression in parts if not expression for path in paths)
    expressions: dict[Selection, list[str]] = {}
    for paths, expression in parts:
        if expression and not (paths and whole.keys() >= set(paths)):
            expressions.setdefault(paths, []).append(f"({expression})")
    some = ((*paths, "-k", " or ".join(each)) for paths, each in expressions.items())
    return [*filter(None, [tuple(whole)]), *some]


def narrowed(tests: Selection, name: str) -> Selection:
    """Those of the tests that have this name."""
    paths, expression = split(tests)
    return (*paths, "-k", f"({expression}) and {name}" if expression else name)


def noticed(report: Path) -> dict[str, str]:
    """Which test noticed each mutant, by what an earlier run printed."""
    lines = report.read_text("utf-8").splitlines()
    found = (re.match(r"caught +[\d.]+ s  (.+): (test_\w+)", line) for line in lines)
    return {match[1]: match[2] for match in found if match}
