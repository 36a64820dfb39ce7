"""Check the prose of the library: banned pronouns, docstrings that are fragments, and names against the glossary.

`python -m tests.prose` prints what is wrong and where; `make lint` calls it. The rules are in docs/glossary.md.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LIBRARY = Path("celery_semaphore")
GLOSSARY = Path("docs/glossary.md")
SUFFIXES = {".py", ".lua", ".sql"}

PRONOUNS = re.compile(
    r"\b(who|whom|whose|whoever|whomever|nobody|somebody|anybody|everybody|someone|anyone|everyone)\b",
    re.IGNORECASE,
)
PRONOUNS_PER_LINE = 0.5 / 1000

# A docstring of a function that begins with one of these is no order.
FRAGMENT = re.compile(
    r"(A|After|All|An|And|Any|As|At|Because|Before|Being|But|By|Each|Else|Every|For|From|How|If|In|Into|Its?|Likewise"
    r"|More|Most|Never|No|None|Nor|Not|Nothing|Of|On|Once|One|Only|Or|Other|Out|Over|Perhaps|See|So|Such|That|The|Their"
    r"|Then|There|These|They|This|Those|Though|To|Unless|Until|What|When|Where|Whether|Which|While|Who|Why|With|Without)\b"
)
FRAGMENTS_OF_DOCSTRINGS = 0.03

WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Finding:
    """One place where the prose breaks a rule."""

    path: Path
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"


def sources() -> list[Path]:
    return sorted(p for p in LIBRARY.rglob("*") if p.suffix in SUFFIXES)


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path in sources():
        if path.suffix == ".py":
            yield path, ast.parse(path.read_text("utf-8"))


def pronouns() -> tuple[list[Finding], int]:
    """Return each line with a banned pronoun, and how many lines were read."""
    found, lines = [], 0
    for path in sources():
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            lines += 1
            if PRONOUNS.search(line):
                found.append(Finding(path, number, line.strip()))
    return found, lines


def is_property(function: Function) -> bool:
    return any("property" in ast.unparse(each) for each in function.decorator_list)


def fragments() -> tuple[list[Finding], int]:
    """Return each docstring of a function that is no order, and how many were read; a property may name a thing."""
    found, docstrings = [], 0
    for path, module in modules():
        for node in ast.walk(module):
            if isinstance(node, Function) and (text := ast.get_docstring(node)):
                docstrings += 1
                if FRAGMENT.match(text) and not is_property(node):
                    found.append(Finding(path, node.lineno, text.splitlines()[0]))
    return found, docstrings


def known_words() -> set[str]:
    return {word.lower() for word in re.findall(r"[A-Za-z]+", GLOSSARY.read_text("utf-8"))}


def unknown_names() -> list[Finding]:
    """Return each module or class whose name has a word that is not in the glossary."""
    known, found = known_words(), []
    for path, module in modules():
        names = [(path.parent.name if path.stem == "__init__" else path.stem, 1)]
        names += [(n.name, n.lineno) for n in ast.walk(module) if isinstance(n, ast.ClassDef)]
        for name, line in names:
            unknown = [word for word in WORD.findall(name) if word.lower() not in known]
            if unknown:
                text = f"{name}: {', '.join(unknown)} is not in {GLOSSARY}"
                found.append(Finding(path, line, text))
    return found


def main() -> int:
    banned, lines = pronouns()
    fragmentary, docstrings = fragments()
    unknown = unknown_names() if GLOSSARY.exists() else []
    for finding in (*banned, *fragmentary, *unknown):
        print(finding)
    print(
        f"{len(banned)} lines of {lines} with a banned pronoun,"
        f" {len(fragmentary)} fragments of {docstrings} docstrings, {len(unknown)} unknown names"
    )
    return int(
        len(banned) > PRONOUNS_PER_LINE * lines
        or len(fragmentary) > FRAGMENTS_OF_DOCSTRINGS * docstrings
        or bool(unknown)
    )


if __name__ == "__main__":
    sys.exit(main())
