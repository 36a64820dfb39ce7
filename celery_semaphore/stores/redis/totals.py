"""Count what is at many resources, in one script: see totals.lua."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.permit import Totals
from ..encoding import seconds
from . import scripts
from .connection import pack
from .scripts import TOTALLED_PARTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .keys import Keys
    from .runner import Runner

NO_WAITS = ["0", "0", "0", "0", "-", "0", "-"]


def totals(runner: Runner, keys: Keys, resources: Sequence[str]) -> list[Totals]:
    parts = [keys.part(name, part) for name in resources for part in TOTALLED_PARTS]
    _, said = runner.run(scripts.TOTALS, [], resources, (len(parts), pack(parts)))
    lines = said.decode().split("\n") if resources else []
    return [_totals_of(name, line.split(" ")) for name, line in zip(resources, lines, strict=True)]


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
        _seconds(oldest),
        int(outbox),
        _seconds(outbox_oldest),
    )


def _seconds(figure: str) -> float | None:
    return None if figure == "-" else seconds(figure)
