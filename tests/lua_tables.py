"""Check the tables of the Lua parts: each shared part defines one table with its name, so that a call names its file.

luacheck knows no fields: a misspelt function of a table, or one that nothing uses, is found here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

OF_THE_CHUNK = {"_call", "_prelude", "_look", "_short"}  # every part may read their locals
TABLE = re.compile(r"^local (\w+) = \{([^{}]*)\}$", re.MULTILINE)
COMMENT_OR_TEXT = re.compile(r'"(?:\\.|[^"\\\n])*"|--.*')

Found = tuple[str, int, str]  # part, line, text


def is_shared(part: str, text: str) -> bool:
    """Return whether this part must have a table; one that only runs defines nothing."""
    defines = re.search(r"^(local|function) ", text, re.MULTILINE)
    return part.startswith("_") and part not in OF_THE_CHUNK and bool(defines)


def scoped(part: str, text: str) -> str:
    """Return a part for luacheck: what is local there is unknown to the others.

    No line moves or grows: the beginning of a block stands in place of the first words of the heading.
    """
    if not is_shared(part, text):
        return text
    name, (heading, code) = part[1:], text.rstrip().split("\n", 1)
    begin = f"local {name} do --"
    code = f"\n{code} end\n".replace(f"\nlocal {name} = ", f"\n{name} = ")
    return begin + heading[len(begin) :] + code


def wrong_names(texts: Mapping[str, str]) -> list[Found]:
    """Return each part without its table, each field that is not defined, and each that no other part uses."""
    shared = [part for part, text in texts.items() if is_shared(part, text)]
    code = {part: COMMENT_OR_TEXT.sub("", text) for part, text in texts.items()}
    defined = {part: set(_defined(part[1:], code[part])) for part in shared}
    found = [
        (part, 1, f"it must define one table: local {part[1:]} = {{}}")
        for part in shared
        if [match[1] for match in TABLE.finditer(code[part]) if match[1] == part[1:]] != [part[1:]]
    ]
    used = {(user, *use) for user, text in code.items() for use in _used(shared, text)}
    for user, line, part, field in used:
        if field not in defined[part]:
            found.append((user, line, f"{part[1:]}.{field} is not defined in {part}.lua"))
    for part in shared:
        elsewhere = {field for user, _, other, field in used if other == part and user != part}
        alone = defined[part] - elsewhere
        found += [(part, 1, f"{field} is used here alone: make it local") for field in alone]
    return sorted(found)


def _defined(name: str, code: str) -> Iterator[str]:
    yield from re.findall(rf"^function {name}\.(\w+)\(", code, re.MULTILINE)
    for table, fields in TABLE.findall(code):
        if table == name:
            yield from re.findall(r"(\w+) =", fields)


def _used(shared: list[str], code: str) -> Iterator[tuple[int, str, str]]:
    """Yield line, part and field of each use of a shared part's table."""
    for number, line in enumerate(code.split("\n"), 1):
        for part in shared:
            for field in re.findall(rf"(?<![\w.])(?<!function ){part[1:]}\.(\w+)", line):
                yield number, part, field
