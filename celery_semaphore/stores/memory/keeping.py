"""Describe how safe parked messages are in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.keeping import Keeping, Safety

if TYPE_CHECKING:
    from .state import MemoryState

OF_ONE_PROCESS = "it ends with this process"


def keeping_of(state: MemoryState, most: int) -> Keeping:
    waits = [wait for at in state.resources.values() for wait in at.tickets.values()]
    parked = sum(wait.payload is not None for wait in waits)
    return Keeping("memory://", Safety.NEVER, OF_ONE_PROCESS, parked=min(parked, most))
