"""With blocks: which permit a ``with`` block of a semaphore has, by the place and the context where it was entered."""

from __future__ import annotations

from contextvars import ContextVar
from types import FrameType
from typing import NamedTuple

from .core.permit import Permit

Place = tuple[int, object]

# These end soon, so what is read of their variables keeps nothing alive.
METHODS = (
    *("__enter__", "__exit__", "enter_context"),
    *("__aenter__", "__aexit__", "enter_async_context"),
)


def place_of(frame: FrameType, semaphore: object) -> Place:
    """Return what tells the block that is entered or left in this frame from others, without keeping it alive.

    A ``with`` statement does both in one frame. An exit stack, or another context manager, does it in two methods, so
    it is that object which tells. What tells lives as long as the block is not left.
    """
    code = frame.f_code
    if code.co_name not in METHODS or not code.co_argcount:
        return id(frame), code
    manager = frame.f_locals.get(code.co_varnames[0], frame)
    if manager is semaphore and frame.f_back is not None:  # a method of a subclass, which called it
        return place_of(frame.f_back, semaphore)
    # `pop_all` moves the blocks of a stack to another stack, in this list.
    return id(getattr(manager, "_exit_callbacks", manager)), type(manager)


class Block(NamedTuple):
    """One block that was entered."""

    blocks: WithBlocks
    place: Place
    permit: Permit


# Each thread, greenlet and asyncio task has its own, so that each releases the permit that it entered with.
_entered: ContextVar[tuple[Block, ...]] = ContextVar("entered", default=())


class WithBlocks:
    """The blocks of one semaphore.

    A framework may run each step of a generator in a context of its own: Starlette does, for a plain generator and for
    a dependency with ``yield``; and the collector closes one in any thread. The place of such a block is the same in
    each step. Where the places differ, the context tells which block is left.
    """

    def __init__(self) -> None:
        self._entered: dict[str, Block] = {}

    def enter(self, permit: Permit, place: Place) -> None:
        """Note that a block was entered here."""
        block = self._entered[permit.holder] = Block(self, place, permit)
        _entered.set((*_entered_here(), block))

    def left(self, place: Place) -> Permit | None:
        """Return the permit of the block that is left here, or None if none was entered."""
        mine = next((each for each in reversed(_entered_here()) if each.blocks is self), None)
        if mine is None or mine.place != place:
            others = (
                self._entered.copy().values()
            )  # at once: other threads enter and leave meanwhile
            mine = next((each for each in reversed(others) if each.place == place), mine)
        return mine and mine.permit

    def has(self, block: Block) -> bool:
        """Return whether this block is not left."""
        return block.permit.holder in self._entered

    def leave(self, permit: Permit) -> None:
        """Forget the block with this permit."""
        self._entered.pop(permit.holder, None)
        _entered.set(tuple(each for each in _entered_here() if each.permit is not permit))


def _entered_here() -> tuple[Block, ...]:
    """Return the blocks of this context without those that were left in another one."""
    return tuple(each for each in _entered.get() if each.blocks.has(each))
