"""Where a refused task goes: each cell of the table in docs/maintain/architecture.md, chapter 2."""

from __future__ import annotations

import pytest

from celery_semaphore.core.refusal import Reason
from celery_semaphore.core.wait_policy import OnSaturated, WaitPolicy
from celery_semaphore.worker.pool_process.destination import Destination, Unasked, Why, destination
from tests.support.process import ROOT

PAGE = ROOT / "docs/maintain/architecture.md"
# The rows, by how they begin, and the refusals that each stands for: a reason, and whether the answer has a ticket.
ROWS: dict[str, list[tuple[Why, bool]]] = {
    "saturated, paused": [
        (reason, True) for reason in (Reason.SATURATED, Reason.PAUSED, Reason.UNSATISFIABLE)
    ],
    "the same, but": [(Reason.RELEASED, False), (Reason.SATURATED, False)],
    "the store recovers": [(Reason.RECOVERING, True)],
    "the task has a permit": [(Reason.RUNNING, False)],
    "the store did not answer": [(Unasked.UNREACHABLE, False)],
    "`wait_timeout` is over": [(Reason.TIMED_OUT, False), (Reason.TIMED_OUT, True)],
    "this message is a copy": [(Reason.COPY, False)],
    "header or store": [(Unasked.NEWER_FORMAT, False)],
}
# The columns, and the options with what the worker said of the store.
COLUMNS: list[list[tuple[OnSaturated, bool]]] = [
    [(OnSaturated.WAIT, True), (OnSaturated.PARK, True)],
    [
        *((OnSaturated.REQUEUE, parks) for parks in (True, False)),
        *((option, False) for option in (OnSaturated.WAIT, OnSaturated.PARK)),
    ],
    [(OnSaturated.DROP, parks) for parks in (True, False)],
    [(OnSaturated.FAIL, parks) for parks in (True, False)],
]
CELLS = {
    "parked": Destination.PARKED,
    "kept in line": Destination.IN_LINE,
    "kept": Destination.KEPT,
    "published, P2": Destination.PUBLISHED,
    "dropped": Destination.DROPPED,
    "failed": Destination.FAILED,
}


def cells() -> list[tuple[str, int, Destination]]:
    """Return the cells of the table: how the row begins, the column, and the destination."""
    table = PAGE.read_text("utf-8").split("### Where a refused task goes", 1)[1]
    lines = table[table.index("| why there is no permit |") :].split("\n\n")[0].splitlines()[2:]
    found = []
    for line in lines:
        why, *columns = (each.strip() for each in line.strip("| ").split("|"))
        (row,) = (row for row in ROWS if why.startswith(row))
        found += [(row, n, CELLS[text]) for n, text in enumerate(columns)]
    return found


def test_the_table_is_whole() -> None:
    assert {(row, n) for row, n, _ in cells()} == {(row, n) for row in ROWS for n in range(4)}
    known = {why for row in ROWS.values() for why, _ in row}
    assert known == {*Reason, *Unasked}
    assert {option for column in COLUMNS for option, _ in column} == {*OnSaturated}


@pytest.mark.parametrize("keeps", [True, False])
@pytest.mark.parametrize(("row", "column", "to"), cells())
def test_a_refused_task_goes_where_the_table_says(
    row: str, column: int, to: Destination, keeps: bool
) -> None:
    """What its worker cannot keep is published (P1), and nothing else changes."""
    kept = (Destination.IN_LINE, Destination.KEPT)
    wanted = Destination.PUBLISHED if to in kept and not keeps else to
    for why, has_ticket in ROWS[row]:
        for option, parks in COLUMNS[column]:
            has = has_ticket and option not in (OnSaturated.DROP, OnSaturated.FAIL)
            policy = WaitPolicy(option, 0.1, 1.0, None).settled(parks=parks)
            found = destination(why, policy.on_saturated, has_ticket=has, keeps=keeps)
            assert found is wanted, (why, option, parks)
