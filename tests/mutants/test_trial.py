"""What a run of pytest says about a mutant."""

from __future__ import annotations

from pathlib import Path

import pytest

from .__main__ import ALL, stale
from .canaries import CANARIES
from .mutant import Mutant, Stale
from .selection import joined, narrowed, noticed
from .trial import ROOT, Outcome

FAILED = "E   AssertionError: 2 != 1\nFAILED tests/a.py::test_a - AssertionError: 2 != 1\n1 failed"


@pytest.mark.parametrize(
    ("code", "said", "verdict"),
    [
        (1, FAILED, "caught"),
        (
            1,
            f"E   command not allowed when used memory > 'maxmemory'. script: on @user_script:7\n{FAILED}",
            "caught",
        ),
        (0, "3 passed in 1.00s", "SURVIVED"),
        (0, "3 skipped in 1.00s", "broken"),
        (5, "no tests ran", "broken"),
        (2, "ERROR tests/a.py - ImportError", "broken"),
        (4, "ERROR: not found: a.py", "broken"),
        (1, "ERROR tests/a.py::test_a - TimeoutError: a server\n1 error", "broken"),
        (1, f"E   NameError: name 'x' is not defined\n{FAILED}", "broken"),
        (1, f"E   redis.ResponseError: Error compiling script\n{FAILED}", "broken"),
        (1, f"E   redis.ResponseError: not an integer, on @user_script:7\n{FAILED}", "broken"),
        (-1, "", "broken"),
    ],
)
def test_verdicts(code: int, said: str, verdict: str) -> None:
    assert Outcome(code, said, 1.0).verdict() == verdict


def test_who_noticed() -> None:
    assert Outcome(1, FAILED, 1.0).by() == "test_a"


@pytest.mark.parametrize(
    ("text", "instead", "why"),
    [
        ("x = 1", "x = 2", "found 2 times"),
        ("z", "y", "found 0 times"),
        ("y = 1", "y = 1", "changes nothing"),
        ("y = 1", "y = (", "breaks the syntax"),
    ],
)
def test_stale_mutants_are_noticed(tmp_path: Path, text: str, instead: str, why: str) -> None:
    (tmp_path / "a.py").write_text("x = 1\nx = 1\ny = 1\n")
    with pytest.raises(Stale, match=why):
        Mutant("name", "why", "a.py", text, instead, ()).strike(tmp_path)


def test_a_mutant_of_a_file_that_is_gone_is_stale(tmp_path: Path) -> None:
    with pytest.raises(Stale, match=r"there is no a\.py"):
        Mutant("name", "why", "a.py", "x", "y", ()).strike(tmp_path)


def test_a_mutant_strikes_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    Mutant("name", "why", "a.py", "1", "2", ()).strike(tmp_path)
    assert (tmp_path / "a.py").read_text() == "x = 2\n"


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in ALL}) == len(ALL)


def test_no_mutant_is_stale() -> None:
    """Whoever changes the library sees at once which mutants must follow."""
    assert stale(ROOT) == []


def test_the_tests_that_are_named_are_there() -> None:
    """Else the mutant is broken, which only a run of all says. Classes inherit the tests of the conformance suite."""
    suite = "".join(each.read_text() for each in (ROOT / "tests/conformance").rglob("*.py"))
    missing = []
    for mutant in ALL:
        for file, _, name in (each.rpartition("::") for each in mutant.tests if "::" in each):
            path = ROOT / file.partition("::")[0]
            inherited = suite if path.name == "test_conformance.py" else ""
            if f"def {name.partition('[')[0]}(" not in path.read_text() + inherited:
                missing.append((mutant.name, file, name))
    assert [each for each in missing if not each[2].startswith("Test")] == []


def test_the_stale_are_all_told(tmp_path: Path) -> None:
    for mutant in (*CANARIES, *ALL):
        (tmp_path / mutant.file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / mutant.file).write_text("pass\n")
    assert len(stale(tmp_path)) == len(CANARIES) + len(ALL)


def test_joined_selections_have_all_tests() -> None:
    selections = [("a",), ("b", "-k", "x or y"), ("b", "-k", "not z"), ("a", "-k", "w"), ("a", "c")]
    assert joined(selections) == [("a", "c"), ("b", "-k", "(not z) or (x or y)")]


def test_a_selection_is_narrowed_to_one_test() -> None:
    assert narrowed(("a", "b"), "test_x") == ("a", "b", "-k", "test_x")
    assert narrowed(("a", "-k", "x or y"), "test_x") == ("a", "-k", "(x or y) and test_x")


def test_a_report_says_who_noticed(tmp_path: Path) -> None:
    lines = (
        "sound       6.7 s  3 selected",
        "caught     12.0 s  lua/one: two: test_a[redis]",
        "caught      8.0 s  lua/three: pytest ended with 1",
        "SURVIVED    8.0 s  lua/four",
        "caught    lua/one: two: three",
    )
    (tmp_path / "report").write_text("\n".join(lines))
    assert noticed(tmp_path / "report") == {"lua/one: two": "test_a"}
