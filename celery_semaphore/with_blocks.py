"""With blocks: which permit a ``with`` block of a semaphore has, by the place and the context where it was entered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack, ExitStack
from contextvars import ContextVar
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_ITERABLE_COROUTINE
from types import CodeType, FrameType
from typing import NamedTuple
from weakref import ref

from .core.permit import Permit

# The number and the code of what lives as long as the block is not left: a frame, or an exit stack.
Place = tuple[int, CodeType]
STACK = ExitStack.__exit__.__code__
COROUTINES = CO_ASYNC_GENERATOR | CO_COROUTINE | CO_ITERABLE_COROUTINE


def place_of(frame: FrameType) -> Place:
    """Return what tells the block that is entered or left in this frame from others.

    The frame itself would keep alive all that it refers to. Those of an exit stack are methods of the standard library,
    which end soon, so that looking at their variables keeps nothing alive.
    """
    if frame.f_code.co_filename == STACK.co_filename:
        stack = frame.f_locals.get("self")
        if isinstance(stack, ExitStack | AsyncExitStack):
            # `pop_all` moves the blocks of a stack to another one, in this list.
            return id(vars(stack).get("_exit_callbacks", stack)), STACK
    return id(frame), frame.f_code


def awaiting_place_of(frame: FrameType) -> Place | None:
    """Return what tells an ``async with`` block in this frame from others, or None if that is its task alone.

    Compiled code, such as Cython's, has no frame of its own. Then this is one of the event loop, and each step of a
    task has another one, perhaps in the memory of the last.
    """
    return place_of(frame) if frame.f_code.co_flags & COROUTINES else None


def is_of_pair(entered: Place | None, left: Place | None) -> bool:
    """Return whether a block may have been entered in the one frame by hand, and is left in the other.

    A context manager around a semaphore does so, in two functions of one file. A block of a ``with`` statement is
    entered and left in one frame.
    """
    if entered is None or left is None:
        return False
    entering, leaving = entered[1], left[1]
    return entering is not leaving and entering.co_filename == leaving.co_filename


class Block:
    """One block that was entered. Only its context refers to it, so it is gone once that is."""

    __slots__ = ("__weakref__", "blocks", "permit")

    def __init__(self, blocks: WithBlocks, permit: Permit) -> None:
        self.blocks = blocks
        self.permit = permit


class Entry(NamedTuple):
    place: Place
    block: ref[Block]
    permit: Permit


# Each thread, greenlet and asyncio task has its own, so that each releases the permit that it entered with.
_entered: ContextVar[tuple[Block, ...]] = ContextVar("entered", default=())


class WithBlocks:
    """The blocks of one semaphore.

    A framework may run each step of a generator in a context of its own: Starlette does, for a plain generator and for
    a dependency with ``yield``. The place of such a block is the same in each step. What enters and leaves by hand has
    two frames, but one context. Where both differ, the block leaves with any permit that was entered by hand in a
    context that is gone.
    """

    def __init__(self) -> None:
        self._entered: dict[str, Entry] = {}

    def enter(self, permit: Permit, place: Place) -> None:
        """Note that a block was entered here."""
        block = Block(self, permit)
        self._entered[permit.holder] = Entry(place, ref(block), permit)
        _entered.set((*_entered_here(), block))

    def left(self, place: Place, is_held: Callable[[Permit], bool]) -> Permit | None:
        """Return the permit of the block that is left here, or None if none was entered."""
        mine = self._last()
        entry = self._entered.get(mine.holder) if mine else None
        if entry and entry.place == place:
            return mine
        others = self._entered.copy().values()  # at once: other threads enter and leave meanwhile
        here = [each.permit for each in others if each.place == place]
        if here:
            return here[-1]
        return self._of_pair(place) or self._without_context(place, is_held) or mine

    def _last(self) -> Permit | None:
        """Return the permit of the block that was entered last in this context, or None."""
        mine = (each.permit for each in reversed(_entered_here()) if each.blocks is self)
        return next(mine, None)

    def _of_pair(self, left: Place) -> Permit | None:
        """Return the permit of the last block of this context that may be left here by hand, or None.

        Around it may be, and within it, blocks of ``with`` statements.
        """
        here = (each.permit.holder for each in reversed(_entered_here()) if each.blocks is self)
        entries = (self._entered.get(holder) for holder in here)
        return next(
            (each.permit for each in entries if each and is_of_pair(each.place, left)), None
        )

    def _without_context(self, left: Place, is_held: Callable[[Permit], bool]) -> Permit | None:
        """Return a held permit that was entered with by hand in a context that is gone, to one caller only; or None."""
        for holder, (place, block, permit) in self._entered.copy().items():
            gone = block() is None and is_of_pair(place, left) and is_held(permit)
            if gone and self._entered.pop(holder, None) is not None:
                return permit
        return None

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
