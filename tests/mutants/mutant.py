"""Mutant: one wrong idea that somebody could really have."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from .matching import replaced


class Stale(Exception):
    """The library has changed, and this mutant must follow."""


@dataclass(frozen=True)
class Mutant:
    name: str
    why: str  # what somebody might think, or what would go wrong
    file: str  # below the repository's root
    text: str  # found there exactly once, whatever comments and indentation the file has there
    instead: str
    tests: tuple[str, ...]  # what pytest is given; those who should notice

    def checked(self, root: Path) -> str:
        """The mutated file's content."""
        try:
            before = (root / self.file).read_text("utf-8")
        except FileNotFoundError:
            raise Stale(f"there is no {self.file}") from None
        count, after = replaced(before, self.text, self.instead, Path(self.file).suffix)
        if count != 1:
            raise Stale(f"found {count} times in {self.file}: {self.text!r}")
        if after == before:
            raise Stale("it changes nothing")
        if self.file.endswith(".py"):
            try:
                ast.parse(after)
            except SyntaxError as error:
                raise Stale(f"it breaks the syntax: {error}") from error
        return after

    def strike(self, root: Path) -> None:
        (root / self.file).write_text(self.checked(root), "utf-8")


@dataclass(frozen=True)
class Group:
    """Makes mutants that have the first part of their names, a folder and a suffix in common."""

    name: str
    folder: str  # below the repository's root
    suffix: str = ".py"
    tests: tuple[str, ...] = ()  # for a mutant that names none

    def __call__(
        self,
        name: str,
        why: str,
        file: str,
        text: str,
        instead: str,
        *named: str,
        tests: tuple[str, ...] = (),
    ) -> Mutant:
        path = f"{self.folder}/{file}{self.suffix}"
        return Mutant(f"{self.name}/{name}", why, path, text, instead, named or tests or self.tests)
