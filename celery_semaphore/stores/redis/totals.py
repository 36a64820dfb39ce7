"""Count what is at many resources, in one script: see totals.lua."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..encoding import totals_of
from . import scripts
from .connection import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...core.totals import Totals
    from .keys import Keys
    from .runner import Runner

WITHOUT_WAITS = ("holders", "ledger", "weights", "tickets")
PARTS = (*WITHOUT_WAITS, "payloads", "outbox", "transit", "line", "aside")
OF_PERMITS = ("limit", "set by an operator", "paused", "kept", "mean", "held", "granted")
NO_WAITS = ("0", "0", "0", "0", "-", "0", "-")  # what follows where there are waits
HAS_WAITS = "?"


def totals(runner: Runner, keys: Keys, resources: Sequence[str]) -> list[Totals]:
    """Count each resource at one instant; those with waits are asked for in a second call."""
    found = dict(zip(resources, _counted(runner, keys, resources, WITHOUT_WAITS), strict=True))
    busy = [name for name, line in found.items() if line == HAS_WAITS]
    found.update(zip(busy, _counted(runner, keys, busy, PARTS), strict=True))
    return [totals_of(name, _figures(found[name])) for name in resources]


def _counted(
    runner: Runner, keys: Keys, resources: Sequence[str], parts: Sequence[str]
) -> list[str]:
    """Return the line of each resource; each part that is declared costs the server time."""
    if not resources:
        return []
    declared = [keys.part(name, part) for name in resources for part in parts]
    _, said = runner.run(scripts.TOTALS, [], [len(parts)], (len(declared), pack(declared)))
    lines: list[str] = said.decode().split("\n")
    return lines


def _figures(line: str) -> list[str | None]:
    found = line.split(" ")
    if len(found) == len(OF_PERMITS):
        found += NO_WAITS
    return [None if figure == "-" else figure for figure in found]
