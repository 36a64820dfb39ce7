"""What mutmut makes of a function, with the operators that are added: only where mutmut is, `make mutants`."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("mutmut", reason="it has a virtual environment of its own")

from . import generated

SOURCE = '''
class A:
    def f(self, a, b):
        """Return nothing."""
        self.x = 1
        if a and b:
            raise ValueError("text")
        self.g(min(a, b), key=a)
        return [each for each in b if each]
'''
EXPECTED = {
    (5, "self.x = 1", "pass"),
    (5, "1", "2"),
    (6, "if a and b", "if (True)"),
    (6, "if a and b", "if (False)"),
    (6, "a and b", "(a)"),
    (6, "a and b", "(b)"),
    (6, "a and b", "a or b"),
    (7, 'raise ValueError("text")', "pass"),
    (8, "self.g(min(a, b), key=a)", "pass"),
    (8, "self.g(min(a, b), key=a)", "self.g(min(a, b))"),
    (8, "min(a, b)", "a"),
    (8, "min(a, b)", "b"),
    (9, "if each", "if (True)"),
    (9, "if each", "if (False)"),
}


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[generated.Generated]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(generated.mutators, "mutation_operators", [*generated.OPERATORS])
    monkeypatch.setattr(generated.file_mutation, "mutation_operators", [*generated.OPERATORS])
    file = Path("celery_semaphore/core/a.py")
    file.parent.mkdir(parents=True)
    file.write_text(SOURCE)
    return list(generated.generated(file))


def test_operators(made: list[generated.Generated]) -> None:
    assert {(each.line, each.before, each.after) for each in made} == EXPECTED


@pytest.mark.parametrize(
    "name", ["core/a.py", "core/*.py", "*.py*", "core/a.py:A.f", "core/a.py:A.*"]
)
def test_names(made: list[generated.Generated], name: str) -> None:
    assert all(each.is_called(name) for each in made)


@pytest.mark.parametrize("name", ["core/b.py", "core/a.py:f", "stores/*.py", "a.py"])
def test_other_names(made: list[generated.Generated], name: str) -> None:
    assert not any(each.is_called(name) for each in made)
