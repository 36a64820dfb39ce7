"""Measure the client for Node.js against its driver's SET NX + DEL, and what its crowds make of a limit."""

from __future__ import annotations

import json
import statistics
import subprocess
from typing import Any

from tests.support.node import FOLDER, why_missing, why_not_installed
from tests.support.servers import ValkeyServer

from .figure import Figure

CALLERS = {1: 1 / 3.5, 20: 0.3}  # and the least ratio of their pairs
CROWDS = {500: 0.5, 2_000: 0.5}  # of 20 ms with limit 20; and the least use
LIMIT, EACH_MS = 20, 20
GIVEN = {
    "pairs": 2_000,
    "rounds": 7,
    "callers": [*CALLERS],
    "crowds": [{"many": many, "limit": LIMIT, "ms": EACH_MS} for many in CROWDS],
}


def measure() -> list[Figure]:
    if reason := why_missing() or why_not_installed():
        raise SystemExit(reason)
    with ValkeyServer() as server:
        command = ["node", "test/speed.js", server.url, json.dumps(GIVEN)]
        said = subprocess.run(command, cwd=FOLDER, capture_output=True, check=True).stdout
    found: dict[str, Any] = json.loads(said)
    figures = [_pairs(*each) for each in zip(CALLERS.items(), found["pairs"], strict=True)]
    return figures + [_crowd(*each) for each in zip(CROWDS.items(), found["crowds"], strict=True)]


def _pairs(bound: tuple[int, float], rounds: list[dict[str, float]]) -> Figure:
    ratios = [each["ours"] / each["theirs"] for each in rounds]
    return Figure(
        f"pairs of {bound[0]} callers in Node.js, to @redis/client's SET NX + DEL",
        statistics.median(ratios),
        bound[1],
        at_least=True,
        spread=(min(ratios), max(ratios)),
        detail={"pairs/s": round(max(each["ours"] for each in rounds))},
    )


def _crowd(bound: tuple[int, float], use: float) -> Figure:
    name = f"use of limit {LIMIT} by {bound[0]:,} calls of {EACH_MS} ms in Node.js"
    return Figure(name, use, bound[1], at_least=True)
