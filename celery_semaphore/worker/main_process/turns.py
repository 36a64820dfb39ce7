"""Tell when the turns of held messages are expected."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..holding.held_message import HeldMessage


def expected_turns(
    line: Sequence[HeldMessage], told: dict[str, float | None]
) -> Iterator[float | None]:
    """Yield the expected time of each turn; None if it is unknown, as in a pause, and for the waits behind that one."""
    still = set[tuple[str, ...]]()  # the resources of a wait that does not move
    for held in line:
        if held.wait is None:
            yield held.due
            continue
        resources = tuple(claim.resource for claim in held.wait.claims)
        turn = told.get(held.wait.ticket.nonce, held.expected)
        if turn is None:
            still.add(resources)
        yield None if resources in still else turn
