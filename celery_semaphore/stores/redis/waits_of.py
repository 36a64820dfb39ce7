"""Find the waits of a task, by its id: see lua/find_waits.lua and lua/where.lua."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...core.snapshot import Waiter
from ...core.task_wait import WAITS_OF_TASK, TaskWait, WaitState
from ...core.wait import Kind
from ..encoding import resource_claims, seconds, ticket_of, unpacked
from . import scripts
from .answers import text

if TYPE_CHECKING:
    from ...core.claim import Claim
    from .runner import Call, Runner

FOUND = 500  # entries in one call; other calls wait meanwhile
AFTER_NONCE = b"\xff"  # see lua/_call.lua


def waits_of(runner: Runner, task_id: str) -> list[TaskWait]:
    """Find the claims of each wait, then, with all their keys declared, where it stands."""
    found = _claims(runner, task_id)
    calls: list[Call] = [(resource_claims(claims), [nonce]) for nonce, claims in found.items()]
    said = zip(found.values(), calls, runner.run_all(scripts.WHERE, calls), strict=True)
    waits = [_wait(claims, call, answer) for claims, call, (_, *answer) in said if answer]
    return sorted(waits, key=lambda each: each.began)


def _claims(runner: Runner, task_id: str) -> dict[str, tuple[Claim, ...]]:
    """Return the claims of the task's waits, by nonce."""
    found, entry = dict[str, "tuple[Claim, ...]"](), b""
    while len(found) < WAITS_OF_TASK:
        _, entries = runner.run(scripts.FIND_WAITS, [], [f"{task_id}:", entry, FOUND])
        for entry in entries:  # the next call begins behind the last one
            nonce, _, claims = entry.partition(AFTER_NONCE)
            if text(nonce).rpartition(":")[0] == task_id and len(found) < WAITS_OF_TASK:
                found[text(nonce)] = unpacked(claims.partition(b" ")[2])
        if len(entries) < FOUND:
            break
    return found


def _wait(claims: tuple[Claim, ...], call: Call, answer: list[Any]) -> TaskWait:
    state, n, ticket, kind, weight, position, due, session, reachable, limit, granted = answer
    waiter = Waiter(
        ticket_of(text(ticket)),
        Kind(kind.decode()),
        weight,
        position,
        seconds(due),
        limit != b"" and 0 < limit < weight,
        text(session),
        bool(reachable),
    )
    until = None if granted == b"" else seconds(granted)
    return TaskWait(call[0][n - 1].resource, claims, waiter, WaitState(state.decode()), until)
