"""Describe how safe parked messages are in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.durability import Durability, Safety

if TYPE_CHECKING:
    from ..engine.state import StoreState

OF_ONE_PROCESS = "it ends with this process"


def durability_of(state: StoreState, most: int) -> Durability:
    waits = [wait for at in state.resources.values() for wait in at.tickets.values()]
    parked = sum(wait.payload is not None for wait in waits)
    return Durability("memory://", Safety.NEVER, OF_ONE_PROCESS, parked=min(parked, most))
