"""``python -m tests.mutants [name ...]``: break the library in many ways; the tests must notice each.

Names may have wildcards: ``'lua/*'``, ``'*ack*'``.
"""

# ruff: noqa: T201 - it prints

from __future__ import annotations

import argparse
import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

from . import canaries, lua, worker
from .mutant import Mutant, Stale
from .trial import ROOT, Outcome, copy, run

ALL: Sequence[Mutant] = (*lua.MUTANTS, *worker.MUTANTS)


class House:
    """The library as it is now, and copies of it; others may go on working on it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = itertools.count()
        self.sound = directory / "sound"
        copy(ROOT, self.sound)

    def baseline(self, tests: tuple[str, ...]) -> Outcome:
        return self._run(None, tests)

    def mutated(self, mutant: Mutant) -> Outcome:
        return self._run(mutant, mutant.tests)

    def _run(self, mutant: Mutant | None, tests: tuple[str, ...]) -> Outcome:
        tree = self._directory / str(next(self._count))
        copy(self.sound, tree)
        try:
            if mutant is not None:
                mutant.strike(tree)
            return run(tree, tests)
        finally:
            shutil.rmtree(tree, ignore_errors=True)


def chosen(names: Iterable[str]) -> list[Mutant]:
    names = list(names)
    for name in names:
        if not any(fnmatchcase(mutant.name, name) for mutant in ALL):
            sys.exit(f"no mutant is called {name!r}")
    return [m for m in ALL if not names or any(fnmatchcase(m.name, name) for name in names)]


def all_fresh(house: House, mutants: Sequence[Mutant]) -> bool:
    """Whether each of them still finds its text."""
    fresh = True
    twice = {m.name for m in mutants if sum(m.name == other.name for other in mutants) > 1}
    for name in twice:
        print(f"two mutants are called {name}")
    for mutant in (*canaries.CANARIES, *mutants):
        try:
            mutant.checked(house.sound)
        except Stale as error:
            fresh = False
            print(f"stale: {mutant.name}: {error}")
    return fresh and not twice


def canaries_sing(house: House) -> bool:
    """Whether the copy is what runs, in the tests and in the workers that they start."""
    heard = True
    for canary in canaries.CANARIES:
        outcome = house.mutated(canary)
        if outcome.code == 0 or canaries.SONG not in outcome.said:
            heard = False
            print(f"{canary.name}: the mutated copy is not what runs\n{outcome.tail()}")
    return heard


def sound_without(
    house: House, jobs: ThreadPoolExecutor, mutants: Sequence[Mutant]
) -> dict[tuple[str, ...], str]:
    """What is wrong with a selection of tests when no mutant is at work: nothing, it is to be hoped."""
    selections = list(dict.fromkeys(mutant.tests for mutant in mutants))
    found = {}
    for tests, outcome in zip(selections, jobs.map(house.baseline, selections), strict=True):
        if not outcome.passed:
            found[tests] = "skipped" if outcome.skipped else "UNSOUND"
            print(f"without a mutant, {' '.join(tests)}: {found[tests]}\n{outcome.tail()}")
    print(f"{len(selections) - len(found)} of {len(selections)} selections of tests pass as it is")
    return found


def judge(house: House, mutant: Mutant, unsound: dict[tuple[str, ...], str]) -> str:
    """One mutant's verdict."""
    if mutant.tests in unsound:
        return unsound[mutant.tests]
    outcome = house.mutated(mutant)
    verdict = outcome.verdict()
    by = "" if verdict == "SURVIVED" else outcome.by()
    print(f"{verdict:9} {mutant.name:46} {outcome.seconds:5.1f} s  {by}", flush=True)
    if verdict == "broken":
        print(outcome.tail())
    return verdict


def table(mutants: Sequence[Mutant], verdicts: Sequence[str]) -> int:
    print()
    for mutant, verdict in zip(mutants, verdicts, strict=True):
        print(f"{verdict:9} {mutant.name:46} {mutant.why}")
    count = {name: verdicts.count(name) for name in ("caught", "SURVIVED", "broken")}
    others = {name: verdicts.count(name) for name in ("UNSOUND", "skipped")}
    line = f"{len(mutants)} mutants: {count['caught']} caught, {count['SURVIVED']} survived"
    for name, many in ({"broken": count["broken"]} | others).items():
        line += f", {many} {name}" if many else ""
    print(f"\n{line}")
    # A server that is missing here is no fault; in CI its tests fail instead of being skipped.
    return int(count["caught"] + others["skipped"] != len(mutants))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name")
    parser.add_argument("--jobs", type=int, default=3, help="mutants at once (default: 3)")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    given = parser.parse_args()
    mutants, start = chosen(given.names), time.monotonic()
    if given.list:
        for mutant in mutants:
            print(f"{mutant.name:46} {mutant.why}")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        house = House(Path(directory))
        if not all_fresh(house, mutants) or not canaries_sing(house):
            return 2
        with ThreadPoolExecutor(given.jobs) as jobs:
            unsound = sound_without(house, jobs, mutants)
            verdicts = list(jobs.map(lambda mutant: judge(house, mutant, unsound), mutants))
        status = table(mutants, verdicts)
    print(f"{time.monotonic() - start:.0f} s")
    return status


if __name__ == "__main__":
    sys.exit(main())
