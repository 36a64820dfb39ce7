"""``python -m tests.mutants [name ...]``: break the library in many ways; the tests must notice each.

Names may have wildcards: ``'lua/*'``, ``'*ack*'``. Mutants that are generated have the names of files and functions:
``core/lease.py``, ``'stores/engine/*.py'``, ``core/lease.py:LeaseKeeper.tick``.
"""

# ruff: noqa: T201 - it prints

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from . import (
    canaries,
    core,
    coroutines,
    costs,
    documents,
    epochs,
    kept_messages,
    lines,
    locks,
    messages,
    node,
    permits,
    servers,
    short_calls,
    task_waits,
    waits,
    worker_messages,
    worker_permits,
)
from .mutant import Mutant, Stale
from .selection import Selection, joined, narrowed, noticed
from .trial import ROOT, RUN_TIMEOUT_S, SOUND_TIMEOUT_S, Outcome, copy, run

# With mutmut comes setproctitle, and with that Celery renames its processes: no tests of workers run there.
GENERATOR = ROOT / ".venv-mutants" / "bin" / "python"
ALL: Sequence[Mutant] = (
    *permits.MUTANTS,
    *short_calls.MUTANTS,
    *waits.MUTANTS,
    *task_waits.MUTANTS,
    *messages.MUTANTS,
    *epochs.MUTANTS,
    *locks.MUTANTS,
    *servers.MUTANTS,
    *worker_permits.MUTANTS,
    *worker_messages.MUTANTS,
    *kept_messages.MUTANTS,
    *lines.MUTANTS,
    *core.MUTANTS,
    *costs.MUTANTS,
    *coroutines.MUTANTS,
    *node.MUTANTS,
    *documents.MUTANTS,
)


class House:
    """The library as it is now, and copies of it; others may go on working on it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = itertools.count()
        self.sound = directory / "sound"
        copy(ROOT, self.sound)

    def baseline(self, tests: Selection) -> Outcome:
        return self._run(None, tests)

    def mutated(self, mutant: Mutant, first: str = "") -> Outcome:
        """Run the mutant's tests; ``first`` the one of this name, which may be enough."""
        if first:
            outcome = self._run(mutant, narrowed(mutant.tests, first))
            if outcome.verdict() == "caught":
                return outcome
        return self._run(mutant, mutant.tests)

    def generated(self, name: str, jobs: int) -> int:
        """Run those that mutmut makes, in its own virtual environment; return what to exit with."""
        tree = self._directory / str(next(self._count))
        copy(self.sound, tree)
        mutated = tree / "mutants"
        mutated.mkdir()  # Python forgets a folder of its path that is not there at its start
        command = [str(GENERATOR), "-P", "tests/mutants/generated.py", f"--jobs={jobs}", name]
        env = os.environ | {"PYTHONPATH": str(mutated)}
        return subprocess.run(command, cwd=tree, env=env, check=False).returncode

    def _run(self, mutant: Mutant | None, tests: Selection) -> Outcome:
        tree = self._directory / str(next(self._count))
        copy(self.sound, tree)
        try:
            if mutant is not None:
                mutant.strike(tree)
            return run(tree, tests, RUN_TIMEOUT_S if mutant else SOUND_TIMEOUT_S)
        finally:
            shutil.rmtree(tree, ignore_errors=True)


def chosen(names: Iterable[str]) -> list[Mutant]:
    names = list(names)
    for name in names:
        if not any(fnmatchcase(mutant.name, name) for mutant in ALL):
            sys.exit(f"no mutant is called {name!r}")
    return [m for m in ALL if not names or any(fnmatchcase(m.name, name) for name in names)]


def stale(root: Path) -> list[str]:
    """What does not fit the library at ``root`` any more, and why: all of it, whatever was chosen."""
    found = []
    for mutant in (*canaries.CANARIES, *ALL):
        try:
            mutant.checked(root)
        except Stale as error:
            found.append(f"stale     {mutant.name}: {error}")
    return found


def canaries_sing(house: House) -> bool:
    """Whether the copy is what runs, in the tests and in the workers that they start."""
    heard = True
    for canary in canaries.CANARIES:
        outcome = house.mutated(canary)
        if outcome.code == 0 or canaries.SONG not in outcome.said:
            heard = False
            print(f"{canary.name}: the mutated copy is not what runs\n{outcome.tail()}")
    return heard


class Trials:
    """All mutants' verdicts, each selection of tests first without a mutant."""

    def __init__(self, house: House, jobs: int, noticed: Mapping[str, str]) -> None:
        self._house, self._noticed = house, noticed
        self._many, self._jobs = jobs, ThreadPoolExecutor(jobs)
        self._sound: dict[Selection, Future[str]] = {}

    def verdicts(self, mutants: Sequence[Mutant]) -> list[str]:
        if self._all_sound(mutants):
            sound: Future[str] = Future()
            sound.set_result("")
            self._sound = dict.fromkeys((mutant.tests for mutant in mutants), sound)
        for mutant in mutants:  # all of these first: then none of the others waits in vain
            if mutant.tests not in self._sound:
                self._sound[mutant.tests] = self._jobs.submit(self._baseline, mutant.tests)
        with self._jobs as jobs:
            return list(jobs.map(self._verdict, mutants))

    def _all_sound(self, mutants: Sequence[Mutant]) -> bool:
        """Whether all the tests pass in one go; else each selection is asked by itself."""
        for tests in joined({mutant.tests for mutant in mutants}):
            at_once = ("-n", str(self._many), "--dist", "worksteal")
            outcome = self._house.baseline((*tests, *at_once))
            say("sound" if outcome.whole else "one by one", f"{len(tests)} selected", outcome)
            if not outcome.whole:
                return False
        return True

    def _baseline(self, tests: Selection) -> str:
        """Nothing, or why these tests say nothing about a mutant."""
        outcome = self._house.baseline(tests)
        found = "" if outcome.passed else "skipped" if outcome.skipped else "UNSOUND"
        say(found or "sound", " ".join(tests), outcome)
        return found

    def _verdict(self, mutant: Mutant) -> str:
        if unsound := self._sound[mutant.tests].result():
            return unsound
        outcome = self._house.mutated(mutant, self._noticed.get(mutant.name, ""))
        verdict = outcome.verdict()
        say(verdict, mutant.name, outcome)
        return verdict


def say(verdict: str, what: str, outcome: Outcome) -> None:
    line = f"{verdict:9} {outcome.seconds:5.1f} s  {what}"
    if verdict not in {"sound", "skipped", "SURVIVED"}:
        line += f": {outcome.by()}"
    if verdict in {"broken", "UNSOUND"}:
        line += f"\n{outcome.tail()}"
    print(line, flush=True)


def table(mutants: Sequence[Mutant], verdicts: Sequence[str]) -> int:
    print()
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        print(f"{verdict:9} {mutant.name}: {mutant.why}")
    caught, survived = verdicts.count("caught"), verdicts.count("SURVIVED")
    line = f"{len(mutants)} mutants: {caught} caught, {survived} survived"
    for other in ("broken", "UNSOUND", "skipped"):
        if many := verdicts.count(other):
            line += f", {many} {other}"
    print(f"\n{line}")
    # A server that is missing here is no fault; in CI its tests fail instead of being skipped.
    return int(caught + verdicts.count("skipped") != len(mutants))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--jobs", type=int, default=4, help="mutants at once (default: 4)")
    parser.add_argument(
        "--after",
        type=Path,
        metavar="REPORT",
        help="what an earlier run printed: the test that noticed a mutant goes first",
    )
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    given = parser.parse_args()
    before = noticed(given.after) if given.after else {}
    made = [name for name in given.names if ".py" in name]
    names = [name for name in given.names if ".py" not in name]
    mutants, start = [] if made and not names else chosen(names), time.monotonic()
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name}: {mutant.why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as directory:
        # PostgreSQL does not run as root, and must get at its data below.
        Path(directory).chmod(0o755)
        house = House(Path(directory))
        if found := stale(house.sound):
            print("\n".join(found), f"{len(found)} stale: nothing is run", sep="\n")
            return 2
        status = 0
        if mutants:
            if not canaries_sing(house):
                return 2
            status = table(mutants, Trials(house, given.jobs, before).verdicts(mutants))
        if not names and not made:
            made = ["stores/engine/*.py", "core/*.py"]
        for name in made:
            status |= house.generated(name, given.jobs)
    print(f"{time.monotonic() - start:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
