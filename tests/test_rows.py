"""The rows of the decision tables: each stands in a comment of each store, and comments name no other row.

The tables are in docs/maintain/architecture.md. A range, such as H1 to H10, is no mark of its rows.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.process import ROOT

TABLES = ROOT / "docs/maintain/architecture.md"
LIBRARY = ROOT / "celery_semaphore"
STORES = ("engine", "redis", "postgresql")
OF_STORES = "ACEHKNOQRW"  # the tables that each store implements; G, M and P are of the worker, T of the servers
ROW = re.compile(r"\b[A-Z][1-9]\d?\b")  # no code of ruff, such as A002
RANGE = re.compile(r"\b[A-Z]\d+ to [A-Z]\d+\b")
COMMENT = {".py": re.compile(r'#.*|"""(?:.|\n)*?"""'), ".lua": re.compile(r"--.*")}
COMMENT[".sql"] = COMMENT[".lua"]


@cache
def rows() -> tuple[str, ...]:
    """Return the rows of all tables."""
    return tuple(re.findall(r"^\| ([A-Z]\d+) \|", TABLES.read_text("utf-8"), re.MULTILINE))


def comments(path: Path) -> str:
    """Return the comments and docstrings of a source."""
    found = COMMENT[path.suffix].findall(path.read_text("utf-8"))
    return re.sub(r"\n *(?:--|#)?", " ", "\n".join(found))  # a range may be wrapped


def sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in COMMENT)


def named(store: str) -> set[str]:
    """Return the rows that the comments of a store name by themselves."""
    texts = [comments(path) for path in sources(LIBRARY / "stores" / store)]
    return {row for text in texts for row in ROW.findall(RANGE.sub("", text))}


def test_the_tables_are_read() -> None:
    assert len(rows()) > 70
    assert len(set(rows())) == len(rows())
    assert {row[0] for row in rows()} == {*OF_STORES, "G", "M", "P", "T"}


@pytest.mark.parametrize("store", STORES)
def test_a_store_names_each_row_where_it_implements_it(store: str) -> None:
    wanted = {row for row in rows() if row[0] in OF_STORES}
    assert wanted - named(store) == set()


def test_comments_name_rows_that_exist() -> None:
    tables = {row[0] for row in rows()}
    for path in sources(LIBRARY):
        found = {row for row in ROW.findall(comments(path)) if row[0] in tables}
        assert found - set(rows()) == set(), path


def test_pages_name_rows_that_exist() -> None:
    tables = {row[0] for row in rows()}
    for path in (ROOT / "docs/glossary.md", *sorted(TABLES.parent.glob("*.md"))):
        found = {row for row in ROW.findall(path.read_text("utf-8")) if row[0] in tables}
        assert found - set(rows()) == set(), path
