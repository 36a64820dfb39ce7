"""Check the Lua scripts with luacheck, as the server gets them: the parts of a script are one chunk.

`python -m tests.lua` prints what is wrong by part and line; `make lint` calls it. A function that some script does not
use is no fault of its part, unless no script uses it. luacheck is Debian's package lua-check.
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

LUACHECK = (
    *("luacheck", "-", "--std", "lua51", "--read-globals", "redis", "cmsgpack", "KEYS", "ARGV"),
    *("--codes", "--formatter", "plain", "--max-line-length", "120"),
    *(
        "--ignore",
        "431",
    ),  # an argument may be called as what the script itself reads: ticket, nonce, holder
)
WARNING = re.compile(r"stdin:(\d+):\d+: \(([EW])(\d+)\) (.*)")
UNUSED = re.compile(r"2[123]1|311")

Found = tuple[str, int, str, str]  # part, line, code, text


def warnings_of(script: scripts.Script) -> Iterator[Found]:
    """Yield what luacheck says of one script, by part."""
    starts, line = [], 2  # the first line holds the constants
    for part in script.parts:
        starts.append((line, part))
        line += len(
            (files("celery_semaphore.stores.redis") / "lua" / f"{part}.lua")
            .read_text("utf-8")
            .split("\n")
        )
    run = subprocess.run(LUACHECK, input=script.source, capture_output=True, text=True, check=False)
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
    for part, line, code, text in wrong:
        print(f"celery_semaphore/stores/redis/lua/{part}.lua:{line}: W{code} {text}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
