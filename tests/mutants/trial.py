"""One run of pytest over a copy of the library, and what it says."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The rights of the stores in tests are read out of docs/operate, and a table out of docs/maintain.
COPIED = ("celery_semaphore", "clients", "tests", "docs/maintain", "docs/operate", "pyproject.toml")
INSTALLED = Path("clients/node/node_modules")  # large, and of no interest to a mutant
RUN_TIMEOUT_S = 300.0  # of a mutant's run
SOUND_TIMEOUT_S = 3600.0  # of a run without a mutant, which may have the tests of all
OPTIONS = ("-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=short", "--timeout=100")

# A mutant that raises these is not a wrong idea but a wrong spelling; that a full server refuses a
# script, or that one touches a key that it was not given, is neither, but what a test looks for, as
# are the errors that is_final() is asked about.
BROKEN = re.compile(
    r"(?m)Error compiling script|nonexistent global variable"
    r"|^(?!.*(?:command not allowed when used memory|which the script was not given|is_final\()).*user_script:\d+"
    r"|^E +(?:\w+\.)*(?:SyntaxError|ImportError|ModuleNotFoundError|NameError|UnboundLocalError)\b"
)


@dataclass(frozen=True)
class Outcome:
    code: int
    said: str
    seconds: float

    @property
    def passed(self) -> bool:
        """Some tests passed, and none failed; skipped ones say nothing."""
        return self.code == 0 and re.search(r"\b\d+ passed", self.said) is not None

    @property
    def whole(self) -> bool:
        """As ``passed``, and none was skipped."""
        return self.passed and re.search(r"\b\d+ skipped", self.said) is None

    @property
    def skipped(self) -> bool:
        return self.code == 0 and not self.passed

    def verdict(self) -> str:
        """Of a mutant's run."""
        if self.passed:
            return "SURVIVED"
        failed = re.search(r"(?m)^FAILED ", self.said)
        if self.code != 1 or not failed or BROKEN.search(self.said):
            return "broken"
        return "caught"

    def by(self) -> str:
        """Which test noticed."""
        found = re.search(r"(?m)^(?:FAILED|ERROR) (\S+::)?([^:\n]+?)(?: - .*)?$", self.said)
        return found[2] if found else f"pytest ended with {self.code}"

    def tail(self, lines: int = 25) -> str:
        return "\n".join(f"    {line}" for line in self.said.splitlines()[-lines:])


def copy(source: Path, target: Path) -> None:
    for name in COPIED:
        if (source / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__", INSTALLED.name)
            shutil.copytree(source / name, target / name, ignore=ignored)
        else:
            target.mkdir(exist_ok=True)
            shutil.copy2(source / name, target / name)
    if (source / INSTALLED).exists():
        (target / INSTALLED).symlink_to((source / INSTALLED).resolve())


def run(tree: Path, tests: tuple[str, ...], timeout: float) -> Outcome:
    """Run these tests of a copy. It goes first wherever Python looks, in workers too."""
    scratch = tree / "tmp"
    scratch.mkdir(exist_ok=True)
    env = os.environ | {"PYTHONPATH": str(tree), "TMPDIR": str(scratch)}
    command = [sys.executable, "-m", "pytest", *OPTIONS, *tests]
    start = time.monotonic()
    with (scratch / "said").open("w+b") as out:
        process = subprocess.Popen(
            command, cwd=tree, env=env, stdout=out, stderr=out, start_new_session=True
        )
        try:
            code = process.wait(timeout)
        except BaseException as error:
            _end(process)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            code = -1
        out.seek(0)
        said = out.read().decode(errors="replace")
    return Outcome(code, said, time.monotonic() - start)


def _end(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C, so that pytest ends its servers and workers; then by force."""
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(30)
        return
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
