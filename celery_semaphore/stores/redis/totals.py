"""Count what is at many resources, in one script: see totals.lua."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Totals
from ..encoding import seconds
from . import scripts
from .connection import pack

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .keys import Keys
    from .runner import Runner

WITHOUT_WAITS = ("holders", "ledger", "weights", "tickets")
PARTS = (*WITHOUT_WAITS, "payloads", "outbox", "transit", "line", "aside")
NO_WAITS = ["0", "0", "0", "0", "-", "0", "-"]
HAS_WAITS = "?"


def totals(runner: Runner, keys: Keys, resources: Sequence[str]) -> list[Totals]:
    """Count each resource at one instant; those with waits are asked for in a second call."""
    found = dict(zip(resources, _counted(runner, keys, resources, WITHOUT_WAITS), strict=True))
    busy = [name for name, line in found.items() if line == HAS_WAITS]
    found.update(zip(busy, _counted(runner, keys, busy, PARTS), strict=True))
    return [_totals_of(name, found[name].split(" ")) for name in resources]


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


def _totals_of(resource: str, figures: list[str]) -> Totals:
    limit, by_operator, held, granted, *waits = figures
    parked, reachable, in_transit, set_aside, oldest, outbox, outbox_oldest = waits or NO_WAITS
    return Totals(
        resource,
        None if limit == "-" else int(limit),
        by_operator == "1",
        int(held),
        int(granted),
        int(parked),
        int(reachable),
        int(in_transit),
        int(set_aside),
        _elapsed(oldest),
        int(outbox),
        _elapsed(outbox_oldest),
    )


def _elapsed(figure: str) -> float | None:
    return None if figure == "-" else seconds(figure)
