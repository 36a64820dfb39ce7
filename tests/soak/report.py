"""Report: the figures of a day, and what was wrong with it."""

from __future__ import annotations

import time
from collections import Counter as Tally
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import rates
from .judge import Bound, Findings, Kind
from .kinds import ACKS
from .ordinary_life import Day
from .places import Left
from .rates import Rate
from .stuck import crashes_in, hung_as, stuck_in_ours

JUDGED = {"lost": rates.lost, "repeated": rates.repeated}
RATES = {**JUDGED, "repeated by a restart of the broker": rates.repeated_by_broker}


@dataclass
class Report:
    """Reports of several days can be added."""

    seconds: float
    limited: int  # short limited tasks
    sent: Tally[Kind]
    restarts: Tally[str]  # by how the worker ended
    hung: Tally[str]  # workers that did not end, and were killed, by how
    crashed: Tally[str]
    rates: dict[tuple[str, Kind], Rate]
    popped: Tally[bool]  # lost between Redis and kombu, by whether they were plain
    inside: dict[int, int]  # limit that held alone → most that were inside
    faults: list[str] = field(default_factory=list)
    suspects: list[str] = field(default_factory=list)  # tasks to look for in the logs

    @classmethod
    def of(cls, day: Day, left: Left) -> Report:
        """Judge a day that is over."""
        findings, inside = day.judge()
        ours = {
            task: f"{task} {why}"
            for (plain, _), found in findings.items()
            if not plain
            for task, why in found.faults.items()
        }
        above = [
            f"{b.inside} inside {wait} with limit {b.limit}"
            for wait, seen in inside.items()
            for b in seen
            if b.inside > b.limit
        ]
        logs = day.fleet.logs()
        crashes = [crashes_in(log) for life, log in logs if life.crashed]
        return cls(
            time.monotonic() - day.began,
            day.feeder.limited(),
            Tally({kind: found.sent for kind, found in findings.items()}),
            Tally(day.fleet.restarts),
            Tally(hung_as(life, log) for life, log in logs if life.hung),
            Tally("".join(where[:1]) for where in crashes),
            _rates(findings),
            _popped(findings),
            _most(inside),
            [
                *stuck_in_ours(logs),
                *above,
                *ours.values(),
                *(f"{size} left in {name}" for name, size in left.items()),
            ],
            list(ours)[:3],
        )

    @property
    def complaints(self) -> list[str]:
        """What must not be."""
        return [*self.faults, *self._excesses()]

    def _excesses(self) -> list[str]:
        found = []
        for what in JUDGED:
            for acks in ACKS:
                ours, plain = self.rates[what, (False, acks)], self.rates[what, (True, acks)]
                if rates.exceeds(ours, plain):
                    found.append(f"{acks} acks, {what}: {ours} limited, only {plain} plain tasks")
        return found

    def __add__(self, other: Report) -> Report:
        limits = {*self.inside, *other.inside}
        return Report(
            self.seconds + other.seconds,
            self.limited + other.limited,
            self.sent + other.sent,
            self.restarts + other.restarts,
            self.hung + other.hung,
            self.crashed + other.crashed,
            {what: rate + other.rates[what] for what, rate in self.rates.items()},
            self.popped + other.popped,
            {n: max(self.inside.get(n, 0), other.inside.get(n, 0)) for n in limits},
            self.faults + other.faults,
            self.suspects + other.suspects,
        )

    def __str__(self) -> str:
        lines = [
            f"{self.seconds:.0f} s, {self.limited} short limited tasks, {sum(self.restarts.values())} restarts {dict(self.restarts)}",
            f"Celery hung: {dict(self.hung)}, crashed: {dict(self.crashed)}",
            f"lost between Redis and kombu: limited {self.popped[False]}, plain {self.popped[True]}",
            f"most inside by limit: {self.inside}",
        ]
        for what in RATES:
            for acks in ACKS:
                ours, plain = self.rates[what, (False, acks)], self.rates[what, (True, acks)]
                lines.append(
                    f"{acks} acks, {what} of exposed: limited {ours}, plain {plain} (of {self.sent[False, acks]} and {self.sent[True, acks]})"
                )
        return "\n".join([*lines, *self.complaints[:20]])


def _rates(findings: Mapping[Kind, Findings]) -> dict[tuple[str, Kind], Rate]:
    return {
        (what, (plain, acks)): rate(findings.get((plain, acks), Findings()))
        for what, rate in RATES.items()
        for plain in (False, True)
        for acks in ACKS
    }


def _popped(findings: Mapping[Kind, Findings]) -> Tally[bool]:
    return Tally(plain for (plain, _), found in findings.items() for _ in found.popped)


def _most(inside: Mapping[str, list[Bound]]) -> dict[int, int]:
    """Return the most that were inside while one limit alone was in force."""
    most: dict[int, int] = {}
    for seen in inside.values():
        for bound in seen:
            if bound.pure:
                most[bound.limit] = max(most.get(bound.limit, 0), bound.inside)
    return dict(sorted(most.items()))
