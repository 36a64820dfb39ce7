"""Check the Lua scripts with luacheck, as the server gets them: the parts of a script are one chunk.

`python -m tests.lua` prints what is wrong by part and line; `make lint` calls it. A function that some script does not
use is no fault of its part, unless no script uses it. What is local in a shared part is unknown to the others here, as
lua_tables.py has it. luacheck is Debian's package lua-check.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from importlib.resources import files

from celery_semaphore.stores.redis import scripts

from .lua_tables import scoped, wrong_names

LUACHECK = (
    *("luacheck", "-", "--std", "lua51", "--read-globals", "redis", "cmsgpack", "KEYS", "ARGV"),
    *("--codes", "--formatter", "plain", "--max-line-length", "120"),
    *(
        "--ignore",
        "431",
    ),  # an argument may be called as what the script itself reads: ticket, nonce, holder
)
WARNING = re.compile(r"stdin:(\d+):\d+: \(([EW])(\d+)\) (.*)")
UNUSED = re.compile(r"2[1234]1|3[13]1")

Found = tuple[str, int, str, str]  # part, line, code, text


def text_of(part: str) -> str:
    path = files("celery_semaphore.stores.redis") / "lua" / f"{part}.lua"
    return path.read_text("utf-8")


def warnings_of(script: scripts.Script) -> Iterator[Found]:
    """Yield what luacheck says of one script, by part."""
    source = script.source.split("\n", 1)[0] + "\n"
    starts, line = [], 2  # the first line holds the constants
    for part in script.parts:
        starts.append((line, part))
        text = scoped(part, text_of(part))
        source, line = source + text, line + text.count("\n")
    run = subprocess.run(LUACHECK, input=source, capture_output=True, text=True, check=False)
    for found in WARNING.finditer(run.stdout):
        at, text = int(found[1]), re.sub(r" on line \d+.*", "", found[4])
        inside = [(start, part) for start, part in starts if start <= at]
        if inside:
            start, part = inside[-1]
            yield part, at - start + 1, found[3], text


def main() -> int:
    if shutil.which("luacheck") is None:
        print("luacheck is missing: apt-get install lua-check")
        return 1
    all_scripts = [each for each in vars(scripts).values() if isinstance(each, scripts.Script)]
    seen = defaultdict[Found, int](int)
    for script in all_scripts:
        for found in set(warnings_of(script)):
            seen[found] += 1
    users = {
        part: sum(part in s.parts for s in all_scripts) for s in all_scripts for part in s.parts
    }
    wrong = sorted(
        found
        for found, times in seen.items()
        if not UNUSED.fullmatch(found[2]) or times == users[found[0]]
    )
    texts = {part: text_of(part) for part in users}
    said = [(part, line, f"W{code} {text}") for part, line, code, text in wrong]
    said += wrong_names(texts)
    for part, line, text in said:
        print(f"celery_semaphore/stores/redis/lua/{part}.lua:{line}: {text}")
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main())
