"""Find a piece of code in a file, whatever comments and indentation the file has there."""

from __future__ import annotations

from dataclasses import dataclass

MARKS = {".js": "//", ".py": "#", ".lua": "--", ".sql": "--"}
QUOTES = "\"'"


def code_of(line: str, mark: str) -> str:
    """The line without the comment at its end and the blanks there."""
    quote = ""
    for place, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote and line[place - 1] != "\\" else quote
        elif letter in QUOTES:
            quote = letter
        elif line.startswith(mark, place):
            return line[:place].rstrip()
    return line.rstrip()


@dataclass(frozen=True)
class Bare:
    """A source as the lines of its code, without indentation, and where each letter of them is."""

    text: str
    places: tuple[int, ...]  # in the source, one for each letter

    @classmethod
    def of(cls, source: str, mark: str) -> Bare:
        letters: list[str] = []
        places: list[int] = []
        begin = 0
        for line in source.splitlines(keepends=True):
            code = code_of(line, mark)
            indent = len(code) - len(code.lstrip())
            if code.strip():
                if letters:
                    letters.append("\n")
                    places.append(begin - 1)
                letters += code[indent:]
                places += range(begin + indent, begin + len(code))
            begin += len(line)
        return cls("".join(letters), tuple(places))


def indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def replaced(source: str, text: str, instead: str, suffix: str) -> tuple[int, str]:
    """How often the text is found, and the source with the other in its place, if it is found once."""
    mark = MARKS[suffix]
    bare, wanted = Bare.of(source, mark), Bare.of(text, mark).text
    count = bare.text.count(wanted) if wanted else 0
    if count != 1:
        return count, source
    place = bare.text.index(wanted)
    begin, end = bare.places[place], bare.places[place + len(wanted) - 1] + 1
    found = source[begin:end]
    before = source[source.rfind("\n", 0, begin) + 1 : begin]
    instead = instead.lstrip() if text[0].isspace() else instead
    instead = instead.rstrip() if text[-1].isspace() else instead
    return 1, source[:begin] + _shifted(instead, _deeper(text, found, before, mark)) + source[end:]


def _deeper(text: str, found: str, before: str, mark: str) -> int:
    """How much deeper the source is indented than the text that was found in it."""
    written = [line for line in text.splitlines() if code_of(line, mark).strip()]
    there = [line for line in found.splitlines() if code_of(line, mark).strip()]
    if len(written) > 1:
        return indent_of(there[-1]) - indent_of(written[-1])
    return len(before) - indent_of(written[0]) if written[0][0] == " " and not before.strip() else 0


def _shifted(code: str, deeper: int) -> str:
    first, *others = code.splitlines() or [""]
    shifted = (" " * (indent_of(line) + deeper) + line.lstrip(" ") for line in others)
    return "\n".join([first, *shifted])
