"""The tables of the Lua parts, and what tests.lua_tables says of wrong ones."""

from __future__ import annotations

from importlib.resources import files

import pytest

from .lua_tables import scoped, wrong_names

LINE = """-- The line.
local line = {longest = 9}
local function helper() end

function line.first(at)
    return helper(at)
end
"""
ASK = 'return line.first("line.last", line.longest) -- line.nothing\n'


def test_each_shared_part_of_the_library_has_one_table() -> None:
    folder = files("celery_semaphore.stores.redis") / "lua"
    texts = {p.name.removesuffix(".lua"): p.read_text("utf-8") for p in folder.iterdir()}
    assert {"_line", "acquire"} < set(texts)
    assert wrong_names(texts) == []


@pytest.mark.parametrize(
    ("parts", "part", "said"),
    [
        ({"_line": LINE, "ask": ASK}, "", ""),
        ({"_line": LINE.replace("local line", "local row"), "ask": ASK}, "_line", "one table"),
        ({"_line": LINE.replace(".first", ".last"), "ask": ASK}, "ask", "first is not defined"),
        (
            {"_line": LINE + "\nlocal x = line.first()\n", "ask": "line.longest"},
            "_line",
            "first is",
        ),
        ({"_ran": "-- Only runs.\nif arg(2) then\n    local x = 1\nend\n"}, "", ""),
        ({"_call": "local now = 1\nlocal function arg(n) end\n"}, "", ""),
    ],
    ids=["right", "no table", "undefined", "used here alone", "runs", "names of the chunk"],
)
def test_wrong_names(parts: dict[str, str], part: str, said: str) -> None:
    found = [each for each in wrong_names(parts) if each[0] == part or not part]
    assert len(found) == bool(part)
    assert all(said in each[2] for each in found)


def test_what_is_local_ends_with_its_part() -> None:
    """Elsewhere luacheck must take it for undefined, on the line where it stands."""
    text = scoped("_line", LINE)
    assert text.split("\n", 2)[:2] == ["local line do --", "line = {longest = 9}"]
    assert (text.count("\n"), text[-8:]) == (LINE.count("\n"), "end end\n")
    assert scoped("ask", ASK) == ASK
