"""Tell when the turns of kept messages are expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..keeping.kept_message import KeptMessage


def expected_turns(
    line: Sequence[KeptMessage], told: dict[str, float | None]
) -> Iterator[float | None]:
    """Yield the expected time of each turn; None if it is unknown, as in a pause, and for the waits behind that one."""
    still = set[tuple[str, ...]]()  # the resources of a wait that does not move
    for kept in line:
        if kept.wait is None:
            yield kept.due
            continue
        resources = tuple(claim.resource for claim in kept.wait.claims)
        turn = told.get(kept.wait.ticket.nonce, kept.expected)
        if turn is None:
            still.add(resources)
        yield None if resources in still else turn
